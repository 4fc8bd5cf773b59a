# DeDUCE (section 3, algorithm 1): change the pixels that matter most for the target's class and its density.


use rule search as deduce with:
    input:
        unpack(confirming),
        pairs="<results>/pairs/{seed}/{part}.npz",
        classifier=model("classifier"),
        densities=model("density"),
    output:
        shard("deduce"),
    params:
        source=source("run_method.py", "deduce.methods.deduce"),
        settings=settings("deduce"),
