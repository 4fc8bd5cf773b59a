# JSMA (section 4.2): change the pixels that matter most for the target's class.


use rule search as jsma with:
    input:
        unpack(confirming),
        pairs="<results>/pairs/{seed}/{part}.npz",
        classifier=model("classifier"),
    output:
        shard("jsma"),
    params:
        source=source("run_method.py", "deduce.methods.jsma"),
        settings=settings("jsma"),
