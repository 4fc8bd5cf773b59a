# Wachter et al. (section 2, equation 1): descend from the image until the classifier gives in, and stay near.


use rule search as wachter with:
    input:
        pairs="<results>/pairs/{seed}/{part}.npz",
        classifier=model("classifier"),
        data=raw_data(config["dataset"]),
    output:
        shard("wachter"),
    params:
        source=source("run_method.py", "deduce.methods.wachter"),
        settings=settings("wachter"),
