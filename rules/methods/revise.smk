# REVISE (section 4.2): walk through a VAE's latent space until the decoded image is of the target's class.


use rule search as revise with:
    input:
        pairs="<results>/pairs/{seed}/{part}.npz",
        classifier=model("classifier"),
        generative_model=model("vae"),
    output:
        shard("revise"),
    params:
        source=source("run_method.py", "deduce.methods.revise"),
        settings=settings("revise"),
