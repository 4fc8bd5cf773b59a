# VLK by alibi itself, as a method beside the batched one. Its rule stands with that of vlk, whose settings it shares.

if "vlk" not in EXPERIMENT.used_methods:

    include: "vlk.smk"
