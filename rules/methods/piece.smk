# PIECE (section 2): make the image's exceptional features usual in the target's class, by the generator of the realism score.


use rule search as piece with:
    input:
        pairs="<results>/pairs/{seed}/{part}.npz",
        classifier=model("classifier"),
        generative_model=model("wgan"),
        data=raw_data(config["dataset"]),
    output:
        shard("piece"),
    params:
        source=source("run_method.py", "deduce.methods.piece"),
        settings=settings("piece"),
