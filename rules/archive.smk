# The archive: the artefacts of a finished run with their checksums, packed into one file. The target makes a .tar.gz; the
# same name with .zip is made, too.

if EXPERIMENT.mode in (RUN, PUBLICATION):

    rule manifest:
        """Seal the artefacts: SHA256SUMS, and a manifest of the config, versions, host and command.

        With the seal, results/NAME itself can be given as `--config artifacts=FOLDER`.
        """
        input:
            artifacts(*EXPERIMENT.artifacts),
        output:
            sums="<artifacts>/SHA256SUMS",
            manifest="<artifacts>/manifest.json",
        log:
            "<logs>/manifest.log",
        conda:
            "../envs/core.yaml"
        params:
            source=source("manifest.py"),
            config=TRACKED,
            names=EXPERIMENT.artifact_names,
        script:
            "../scripts/manifest.py"


rule pack:
    """Pack the artefacts, their checksums and their manifest into one file, the same bytes every time."""
    input:
        sums="<artifacts>/SHA256SUMS",
        manifest="<artifacts>/manifest.json",
        files=artifacts(*EXPERIMENT.artifacts),
    output:
        f"<results>/archive/{EXPERIMENT.name}.{{format}}",
    log:
        "<logs>/pack-{format}.log",
    wildcard_constraints:
        format=r"zip|tar\.gz",
    conda:
        "../envs/core.yaml"
    params:
        source=source("pack.py"),
    script:
        "../scripts/pack.py"


rule archive:
    """One file from which anyone can make the tables and figures again: `--config artifacts=FILE`."""
    input:
        f"<results>/archive/{EXPERIMENT.name}.tar.gz",
