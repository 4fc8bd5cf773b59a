# The trivial baseline, beyond the paper: answer with the nearest training image of the target class.


use rule search as nearest_image with:
    input:
        pairs="<results>/pairs/{seed}/{part}.npz",
        classifier=model("classifier"),
        data=raw_data(config["dataset"]),
    output:
        shard("nearest_image"),
    params:
        source=source("run_method.py", "deduce.methods.nearest_image"),
        settings=settings("nearest_image"),
