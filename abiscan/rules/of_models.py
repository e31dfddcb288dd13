"""The rules about saved models: their documentation. What they find comes from ``verdict/model``."""

from __future__ import annotations

from typing import Final

from abiscan.findings import Documented

_NOT_READABLE: Final = """The loader of this torch does not read the layout or the version of a saved model.

**What it finds.** An archive whose layout, archive version, schema version or bytecode version is none that this
release reads, or a package for a device that this build of torch does not have.

**Why it fails.** Each release has its own loader. `torch.export.save` and AOTInductor write another layout from 2.8 on,
and the major number of the schema of exported programs has to be the same.

**Fix.** Save the model with the torch that will load it, or load it with the one that saved it.

**Limits.** What the loaders read is recorded from the sources of each release; of a torch that is no release it is not
known, which is a gap.

**Example.** `KeyError: "There is no item named 'version' in the archive"`
"""

_PICKLES_CLASSES: Final = """A file of `torch.save` needs Python names that `torch.load` refuses by default.

**What it finds.** Names in the pickle that are not among those which this release allows with `weights_only=True`, its
default from 2.6 on. Nothing is unpickled: the instructions are read.

**Why it fails.** A pickle calls what it names, so a file from elsewhere could run anything.

**Fix.** Save `model.state_dict()`. If you trust the file, pass `weights_only=False`.

**Limits.** Before 2.6, such a file loads where its classes can be imported; whether they can is not known for those
that are not torch's.

**Example.** `Unsupported global: GLOBAL torch.nn.modules.linear.Linear was not an allowed global by default.`
"""

_OPERATOR_MISSING: Final = """A saved model calls operators, or needs custom classes, that are not there.

**What it finds.** Operators in the code or the graph of the model that are neither this torch's nor brought by one of
the other targets, or by a package that is installed with the torch.

**Why it fails.** TorchScript and exported programs name operators, and look them up as they are loaded. What an
extension registers is there once it is imported.

**Fix.** Import the extension before, and pass it as another target: `abiscan check model.pt torchvision==0.28.0`.

**Limits.** Operators that only TorchScript has count as there on every release.

**Example.** `Unknown builtin op: torchvision::nms.`
"""

_OPERATOR_CHANGED: Final = """A saved model calls an operator with arguments that it does not take here.

**What it finds.** Calls whose arguments, by number and name, fit no overload on this torch, and fit one on another
release.

**Why it fails.** Torch matches the arguments with the schemas as it loads the model. New arguments with defaults do no
harm; a removed or renamed one does.

**Fix.** Save the model with the torch that will load it.

**Limits.** The types of the arguments are not compared. Operators that torch replaces in older archives fit.

**Example.** `Arguments for call are not valid.`
"""

_LACKS_FUNCTION: Final = """The library of a compiled model does not have functions that this torch looks up in it.

**What it finds.** Names beginning with `AOTInductor` that this release asks a model's library for (`dlsym`), and that
the library does not export.

**Why it fails.** Up to 2.7, torch asks for all of them, and raises. From 2.8 on it needs some, and prints a warning for
each of the others, which is a `note` here.

**Fix.** Compile the model again with the torch that will load it.

**Limits.** What calls the functions is not followed: a note does no harm unless you update constants of the model.

**Example.** `Could not dlsym AOTInductorModelContainerGetConstantsBlobSize`
"""

# They share a module because they have no check: a model is checked as a whole, where its load is followed.
MODEL_RULES: Final = tuple(
    Documented(name=name, summary=text.partition("\n")[0], documentation=text.strip())
    for name, text in (
        ("model-not-readable", _NOT_READABLE),
        ("model-pickles-classes", _PICKLES_CLASSES),
        ("model-operator-missing", _OPERATOR_MISSING),
        ("model-operator-changed", _OPERATOR_CHANGED),
        ("model-lacks-function", _LACKS_FUNCTION),
    )
)
