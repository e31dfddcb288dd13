"""The tools for projects: uv, poetry, pdm and pixi, as the help of their commands describes them."""

from __future__ import annotations

from typing import Final

from abiscan.hooks.project_tool import Meaning, ProjectTool, ToolCommand, options_of

_PROJECT: Final = "pyproject.toml"


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# uv 0.5 to 0.13
_CHANGES_UV: Final = options_of(
    {
        Meaning.CHANGING: (
            "-r= --requirements= -c= --constraints= --marker= --bounds= --rev= --tag= --branch= -m= --package= "
            "--extra= --editable --raw --lfs --workspace --no-workspace --dev"
        ),
        Meaning.TO_GROUP: "--group=",
        Meaning.TO_EXTRA: "--optional=",
    }
)
UV: Final = ProjectTool(
    program="uv",
    lock="uv.lock",
    manifests={_PROJECT: b""},
    workspace=b"[tool.uv.workspace]",
    commands={
        "sync": ToolCommand(lock=("lock",), installs=True),
        "run": ToolCommand(lock=("lock",), installs=True, starts=True),
        "lock": ToolCommand(lock=("lock",)),
        "add": ToolCommand(lock=("add", "--no-sync"), names=True, options=_CHANGES_UV),
        "remove": ToolCommand(lock=("remove", "--no-sync"), names=True, options=_CHANGES_UV),
    },
    options=options_of(
        {
            Meaning.PLACE: "--directory= --project=",
            Meaning.RESOLVING: (
                "--index= --default-index= -i= --index-url= --extra-index-url= -f= --find-links= --index-strategy= "
                "--keyring-provider= -P= --upgrade-package= --upgrade-group= --resolution= --prerelease= "
                "--prerelease-package= --fork-strategy= --exclude-newer= --exclude-newer-package= "
                "--no-sources-package= -C= --config-setting= --config-settings-package= --refresh-package= "
                "--no-build-isolation-package= "
                "--no-build-package= --no-binary-package= --cache-dir= -p= --python= --color= --allow-insecure-host= "
                "--config-file= --link-mode= --no-index -U --upgrade --no-sources --no-build-isolation --no-build "
                "--no-binary --require-build-hashes --no-require-build-hashes -n --no-cache --refresh --managed-python "
                "--no-managed-python --no-python-downloads -q --quiet -v --verbose --system-certs --native-tls "
                "--offline --no-progress --no-config --preview --no-preview"
            ),
            Meaning.EXTRA: "--extra=",
            Meaning.GROUP: "--group= --only-group=",
            Meaning.ALL_EXTRAS: "--all-extras",
            Meaning.ALL_GROUPS: "--all-groups",
            Meaning.NO_DEV: "--no-dev --no-default-groups",
            Meaning.INSTALLING: (
                "--no-extra= --no-group= --package= --dev --only-dev --all-packages --no-install-package= "
                "--reinstall-package= --no-editable-package= --output-format= --env-file= --no-editable --inexact "
                "--exact --active --no-install-project --no-install-workspace --no-install-local --reinstall "
                "--compile-bytecode --no-compile-bytecode --no-env-file --locked --check --check-exists -m --module"
            ),
            Meaning.FROZEN: "--frozen",
            Meaning.NO_INSTALL: "--no-sync",
            Meaning.HARMLESS: "-h --help -V --version --dry-run",
        }
    ),
    add=("add", "--no-sync"),
    python=("python", "find"),
    environment=".venv",
    leading=("UV_PROJECT", "UV_WORKING_DIR", "UV_WORKING_DIRECTORY"),
    freezing="UV_FROZEN",
    variables={"VIRTUAL_ENV": ""},
)

# poetry 1.8 to 2.5
_CHANGES_POETRY: Final = options_of(
    {
        Meaning.CHANGING: (
            "-D --dev -e --editable -E= --extras= --python= --platform= --markers= --source= --allow-prereleases"
        ),
        Meaning.TO_GROUP: "-G= --group=",
    }
)
_FROM_LOCK: Final = ToolCommand(lock=("lock",), fresh=(), installs=True)
POETRY: Final = ProjectTool(
    program="poetry",
    lock="poetry.lock",
    manifests={_PROJECT: b""},
    commands={
        "install": _FROM_LOCK,
        "sync": _FROM_LOCK,
        "lock": ToolCommand(
            lock=("lock",),
            options=options_of({Meaning.CHANGING: "--no-update --regenerate", Meaning.HARMLESS: "--check"}),
        ),
        "add": ToolCommand(lock=("add", "--lock"), names=True, options=_CHANGES_POETRY),
        "remove": ToolCommand(lock=("remove", "--lock"), names=True, options=_CHANGES_POETRY),
        "update": ToolCommand(
            lock=("update", "--lock"),
            names=True,
            options=options_of({Meaning.CHANGING: "--without= --with= --only= --no-dev", Meaning.INSTALLING: "--sync"}),
        ),
    },
    others=_names(
        "about build cache check config debug env export help init list new publish run search self shell show source "
        "version"
    ),
    options=options_of(
        {
            Meaning.PLACE: "-C= --directory= -P= --project=",
            Meaning.RESOLVING: ("-q --quiet --ansi --no-ansi -n --no-interaction --no-plugins --no-cache -v --verbose"),
            Meaning.EXTRA: "-E= --extras=",
            Meaning.GROUP: "--with=",
            Meaning.WITHOUT: "--without=",
            Meaning.ONLY: "--only=",
            Meaning.ALL_EXTRAS: "--all-extras",
            Meaning.ALL_GROUPS: "--all-groups",
            Meaning.NO_DEV: "--no-dev",
            Meaning.INSTALLING: "--sync --no-root --no-directory --compile --remove-untracked",
            Meaning.NO_INSTALL: "--lock --only-root",
            Meaning.HARMLESS: "-h --help -V --version --dry-run",
        }
    ),
    add=("add", "--lock"),
    python=("env", "info", "--executable"),
    knows_folder=True,
    variables={"POETRY_VIRTUALENVS_IN_PROJECT": "true"},
)

# pdm 2.22 to 2.29
_HOW_TO_UPDATE: Final = (
    "--pre --prerelease --stable -u --unconstrained --save-compatible --save-safe-compatible --save-wildcard "
    "--save-exact --save-minimum --update-reuse --update-eager --update-all --update-reuse-installed"
)
_CHANGES_PDM: Final = options_of(
    {Meaning.CHANGING: f"-d --dev -e= --editable= {_HOW_TO_UPDATE}", Meaning.TO_GROUP: "-G= --group="}
)
_CHOOSES_PDM: Final = "-d --dev --without= --no-default --prod --production"
PDM: Final = ProjectTool(
    program="pdm",
    lock="pdm.lock",
    manifests={_PROJECT: b""},
    commands={
        "install": ToolCommand(
            lock=("lock",), again=("lock", "--update-reuse"), fresh=("lock", "--check"), installs=True
        ),
        "sync": ToolCommand(
            lock=("lock",),
            fresh=(),
            installs=True,
            options=options_of({Meaning.INSTALLING: "--clean --only-keep --clean-unselected -r --reinstall"}),
        ),
        "lock": ToolCommand(
            lock=("lock",),
            options=options_of(
                {
                    Meaning.CHANGING: (
                        "--refresh --update-reuse --update-reuse-installed --exclude-newer= -S= --strategy= "
                        "--no-cross-platform --static-urls --no-static-urls --python= --platform= --implementation= "
                        f"--append {_CHOOSES_PDM}"
                    ),
                    Meaning.TO_GROUP: "-G= --group= --with=",
                    Meaning.HARMLESS: "--check",
                }
            ),
        ),
        "add": ToolCommand(lock=("add", "--no-sync"), names=True, options=_CHANGES_PDM),
        "remove": ToolCommand(lock=("remove", "--no-sync"), names=True, options=_CHANGES_PDM),
        "update": ToolCommand(
            lock=("update", "--no-sync"),
            names=True,
            options=options_of(
                {
                    Meaning.CHANGING: f"-t --top {_CHOOSES_PDM} {_HOW_TO_UPDATE}",
                    Meaning.TO_GROUP: "-G= --group= --with=",
                    Meaning.HARMLESS: "--outdated",
                }
            ),
        ),
    },
    others=_names(
        "build cache completion config export fix import info init list new outdated plugin publish py python run "
        "search self show use venv"
    ),
    options=options_of(
        {
            Meaning.PLACE: "-p= --project=",
            Meaning.RESOLVING: (
                "-c= --config= --override= -C= --config-setting= -I --ignore-python --no-cache -n --non-interactive "
                "--no-isolation -q --quiet -v --verbose"
            ),
            Meaning.GROUP: "-G= --group= --with=",
            Meaning.WITHOUT: "--without=",
            Meaning.NO_DEV: "--prod --production",
            Meaning.INSTALLING: ("-d --dev --no-default --no-editable --no-self --fail-fast -x -k= --skip= --check"),
            Meaning.NO_INSTALL: "--no-sync",
            Meaning.HARMLESS: "-h --help -V --version --dry-run",
        }
    ),
    add=("add", "--no-sync"),
    python=("info", "--python"),
    leading=("PDM_PROJECT", "PDM_LOCKFILE", "PDM_FROZEN_LOCKFILE", "PDM_NO_LOCK"),
)

# pixi 0.50 and newer
_CHANGES_PIXI: Final = options_of(
    {
        Meaning.CHANGING: (
            "--pypi --host --build -f= --feature= --platform= -g= --git= --branch= --tag= --rev= -s= --subdir= "
            "--editable --pinning-strategy= --index="
        )
    }
)
PIXI: Final = ProjectTool(
    program="pixi",
    lock="pixi.lock",
    manifests={"pixi.toml": b"", _PROJECT: b"[tool.pixi"},
    commands={
        "install": ToolCommand(lock=("lock",), installs=True),
        "lock": ToolCommand(lock=("lock",), options=options_of({Meaning.HARMLESS: "--check"})),
        "run": ToolCommand(lock=("lock",), installs=True, starts=True),
        "shell": ToolCommand(lock=("lock",), installs=True),
        "add": ToolCommand(lock=("add", "--no-install"), names=True, options=_CHANGES_PIXI),
        "remove": ToolCommand(lock=("remove", "--no-install"), names=True, options=_CHANGES_PIXI),
        "update": ToolCommand(lock=("update", "--no-install"), names=True),
    },
    others=_names("auth clean completion config help info init list search self-update task tree upload"),
    options=options_of(
        {
            Meaning.RESOLVING: "-q --quiet -v --verbose --no-progress --color= --auth-file= --pypi-keyring-provider=",
            Meaning.GROUP: "-e= --environment=",
            Meaning.INSTALLING: "--locked --force-reinstall --skip=",
            Meaning.FROZEN: "--frozen",
            Meaning.NO_INSTALL: "--no-install",
            Meaning.HARMLESS: "-h --help -V --version",
        }
    ),
    add=("add", "--no-install"),
    of_index=("--pypi",),
    environment=".pixi/envs/default",
    leading=("PIXI_PROJECT_MANIFEST",),
    freezing="PIXI_FROZEN",
)

TOOLS: Final = {tool.program: tool for tool in (UV, POETRY, PDM, PIXI)}
