# VLK by alibi itself, as a method beside the batched one. Its rules stand with those of vlk, whose settings they share.

if "vlk" not in USED_METHODS:

    include: "vlk.smk"
