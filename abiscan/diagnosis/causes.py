"""The causes of errors, each with the texts that it is known by.

The texts are templates, as for ``str.format``. Those of torch are the tables that predictions are worded by; the others
are in the words of the loader, of Python, of pip, of CUDA and of packages. ``docs/common-errors.md`` is made of this
table.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from abiscan.binary.loadable import CRASH, NOT_ALIGNED, NOT_OPENABLE
from abiscan.dispatch.messages import TEMPLATES
from abiscan.linkage.model import NO_SUCH_FILE
from abiscan.linkage.resolve import EXECUTABLE_STACK, ISA_LEVEL, PACKED, STATIC_TLS
from abiscan.python.torch_api import torch_texts
from abiscan.python.torch_api.torch_classes import COMPILED_CLASSES
from abiscan.python.torch_api.torch_texts import WORDINGS

CLASSES_IN_ERRORS: Final = {"Tensor": "torch.Tensor", **{shown: name for name, shown in COMPILED_CLASSES.items()}}
"""Classes of torch, by the names that errors have for them."""


class ErrorCause(Struct, frozen=True, kw_only=True):
    """Why something fails.

    :ivar name: the name of the rule that finds it, where there is one
    :ivar summary: what is wrong, in a sentence
    :ivar fix: what to do about it
    :ivar texts: the templates of what users see; none where only a name in them tells
    :ivar warns: whether it is a warning, after which another error may follow that has nothing to do with it
    """

    name: str
    summary: str
    fix: str
    texts: tuple[str, ...] = ()
    warns: bool = False


CHANGED_PARAMETERS: Final = "changed-parameters"
"""Python says the same of any function: it is this cause if a release of torch has the function with the parameter."""

_RULES_OF_MESSAGES: Final = {
    "library-block-misuse": (
        *("L1", "L1b", "L2", "L3", "L4", "L5", "L6", "L7", "L8", "L9", "L10"),
        *("R3", "R4", "R5", "R6", "R9", "R10", "key"),
    ),
    "duplicate-library": ("N1",),
    "duplicate-def": ("D1",),
    "schema-conflict": ("D2", "D3", "D4", "D5"),
    "bad-schema-string": ("K11", "G1"),
    "duplicate-fallback": ("F1", "F2"),
    "kernel-signature-mismatch": ("K1",),
    "kernel-schema-mismatch": ("K2", "R7", "R8"),
    "kernel-override": ("K3", "K3b"),
    "missing-kernel": ("K6", "K7"),
    "missing-operator-lookup": ("S1", "S2"),
    "custom-class-conflict": ("C1",),
    "registry-conflict": ("C4", "C4b", "C5", "E1", "E2", "E3", "E4", "E5"),
}
"""The ids of ``dispatch/messages`` that each rule is about."""

_AMBIGUOUS: Final = ("bad optional access", "{problem}")
"""Texts that other code prints as well, or that have no words of their own."""


def _of_rule(rule: str) -> tuple[str, ...]:
    ids = _RULES_OF_MESSAGES[rule]
    texts = (template.text for template in TEMPLATES if template.id in ids and template.text not in _AMBIGUOUS)
    return tuple(dict.fromkeys(texts))


def _of_python(*ids: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(wording.text for wording in WORDINGS if wording.id in ids))


_OTHER_BUILD: Final = "install a build of the package made for this torch"
_REBUILD: Final = "install a build of the extension for this Python, or rebuild it with it"
_REPORT: Final = "report it to the authors of the extension: the code that registers it is wrong"
_SAVE_AGAIN: Final = "load the model with the torch that saved it, or save it again with this one"

_NO_MODULE: Final = (
    "The specified module could not be found",
    "找不到指定的模块",
    "找不到指定的模組",
    "指定されたモジュールが見つかりません",
    "지정된 모듈을 찾을 수 없습니다",
    "Не найден указанный модуль",  # noqa: RUF001 - Russian
    "Das angegebene Modul wurde nicht gefunden",
    "Le module spécifié est introuvable",
    "No se puede encontrar el módulo especificado",
    "Não foi possível encontrar o módulo especificado",
)
"""What Windows says of its error 126, by its language."""

_NO_PROCEDURE: Final = (
    "The specified procedure could not be found",
    "找不到指定的程序",
    "指定されたプロシージャが見つかりません",
    "지정된 프로시저를 찾을 수 없습니다",
    "Не найдена указанная процедура",  # noqa: RUF001 - Russian
    "Die angegebene Prozedur wurde nicht gefunden",
    "La procédure spécifiée est introuvable",
    "No se encontró el proceso especificado",
    "Não foi possível encontrar o procedimento especificado",
)
"""Of error 127."""


def _of_windows(*messages: str) -> tuple[str, ...]:
    """Return what Python says of a library that Windows does not load, with the text of the system."""
    return tuple(f"DLL load failed{{where}}: {message}" for message in messages)


CAUSES: Final = (
    ErrorCause(
        name="undefined-symbol",
        summary="The extension uses functions or data that no library of this process provides.",
        fix=_OTHER_BUILD,
        texts=(
            "undefined symbol: {symbol}",
            "undefined reference to `{symbol}'",
            "symbol not found in flat namespace '{symbol}'",
            "symbol not found in flat namespace ({symbol})",
            "Symbol not found: {symbol}",
            *_of_windows(*_NO_PROCEDURE),
            "OSError: [WinError 127]",
        ),
    ),
    ErrorCause(
        name="cxx11-abi-mismatch",
        summary="The extension and torch were built with different ABIs of std::string.",
        fix=_OTHER_BUILD,
    ),
    ErrorCause(
        name="symbol-version-not-found",
        summary="A library of the system is older than the one that the file was built with.",
        fix="use a newer system or container, the libstdc++ of a newer compiler (conda install libstdcxx-ng), or an "
        "older build of the package",
        texts=(
            "version `{version}' not found",
            "version '{version}' not found",
            "version {symbol_version} not found",
        ),
    ),
    ErrorCause(
        name="missing-library",
        summary="A library that the file needs is missing.",
        fix="install the package that has the library, or a build of the extension that does not need it",
        texts=(
            f"{{library}}: {NO_SUCH_FILE}",
            "{library}: cannot open shared object file",
            "Library not loaded: {path}",
            *_of_windows(*_NO_MODULE),
            "OSError: [WinError 126]",
            'Error loading "{path}" or one of its dependencies',
            "Could not find module '{path}' (or one of its dependencies)",
            "Cannot find DGL C++ graphbolt library at {path}",
            "Required library version not found: {library}",
            "Could not find the bitsandbytes CUDA binary at",
            "Could not find module '{name}' in {path}",
        ),
    ),
    ErrorCause(
        name="architecture-mismatch",
        summary="The file was built for a different processor architecture.",
        fix="install a build for this machine",
        texts=(
            "wrong ELF class: {class}",
            "mach-o file, but is an incompatible architecture",
            "mach-o, but wrong architecture",
            "[WinError 193] %1 is not a valid Win32 application",
            "DLL load failed: %1 is not a valid Win32 application",
            "DLL load failed while importing {module}: %1 is not a valid Win32 application",
        ),
    ),
    ErrorCause(
        name="cpu-too-old",
        summary="The processor lacks instructions that the code needs.",
        fix="use a build for older processors, or a newer processor",
        texts=("Illegal instruction", ISA_LEVEL),
    ),
    ErrorCause(
        name="refused-by-loader",
        summary="The dynamic loader refuses the file, or ends the process at it.",
        fix="install the package again; if it is refused again, report it to its authors",
        texts=(
            EXECUTABLE_STACK.rpartition(":")[0],
            STATIC_TLS,
            "cannot load any more object with static TLS",
            PACKED,
            NOT_OPENABLE,
            NOT_ALIGNED,
            "ELF load command address/offset not properly aligned",
            "ELF load command alignment not page-aligned",
            "invalid ELF header",
            "ELF file data encoding not little-endian",
            "ELF file version ident does not match current one",
            "ELF file version does not match current one",
            "ELF file OS ABI invalid",
            "ELF file ABI version invalid",
            "nonzero padding in e_ident",
            "only ET_DYN and ET_EXEC can be loaded",
            "ELF file's phentsize not the expected size",
            "object file has no loadable segments",
            "object file has no dynamic section",
            "failed to map segment from shared object",
            "cannot map zero-fill pages",
            "cannot dynamically load executable",
            "cannot dynamically load position-independent executable",
            "cannot change memory protections",
            "of Verneed record",
            "of Verdef record",
            "Inconsistency detected by ld.so: {file}",
            ".so: file too short",
        ),
    ),
    ErrorCause(
        name="copied-data-grown",
        summary="A program has a copy of data that are larger in this torch.",
        fix="build the program again with this torch",
        texts=("Symbol `{symbol}' has different size in shared object, consider re-linking",),
        warns=True,
    ),
    ErrorCause(
        name="python-abi-mismatch",
        summary="The module was compiled for a different Python.",
        fix=_REBUILD,
        texts=(
            "Python version mismatch: module was compiled for Python {version}",
            "dynamic module does not define module export function (PyInit_{module})",
            "Module use of {library} conflicts with this version of Python",
        ),
    ),
    ErrorCause(
        name="wheel-for-another-system",
        summary="The tags of the wheel are for a different Python, system or machine than the one that installs it.",
        fix="install the wheel whose tags fit this Python and machine (python -m pip debug --verbose lists them)",
        texts=("{wheel}.whl is not a supported wheel on this platform",),
    ),
    ErrorCause(
        name="pybind11-internals-mismatch",
        summary="Two modules share types of pybind11, and register one twice or do not see each other's.",
        fix="use builds of both that were made with the same pybind11; import each once",
        texts=(
            'generic_type: type "{name}" is already registered!',
            'generic_type: cannot initialize type "{name}"',
            'generic_type: type "{name}" referenced unknown base type',
        ),
    ),
    ErrorCause(
        name="numpy-abi",
        summary="A compiled module was built for another numpy than the one installed.",
        fix="pip install 'numpy<2', or a newer build of the module",
        texts=(
            "numpy.core.multiarray failed to import",
            "numpy._core.multiarray failed to import",
            "_multiarray_umath failed to import",
            "_ARRAY_API not found",
            "module compiled against ABI version {version} but this version of numpy is {other}",
            "module was compiled against NumPy C-API version {version}",
            "module was compiled against the C-API of NumPy {version}",
            "numpy.dtype size changed, may indicate binary incompatibility",
            "numpy.ufunc size changed, may indicate binary incompatibility",
            "RuntimeError: Numpy is not available",
        ),
    ),
    ErrorCause(
        name="duplicate-library",
        summary="Two libraries define the operators of one namespace: an extension is loaded twice, or in two builds.",
        fix="load the extension once; uninstall the second copy",
        texts=_of_rule("duplicate-library"),
    ),
    ErrorCause(
        name="duplicate-def",
        summary="An operator is defined twice: the extension is loaded twice, or torch has the operator now.",
        fix="load the extension once, or install a newer one",
        texts=(*_of_rule("duplicate-def"), *_of_python("defined twice")),
    ),
    ErrorCause(
        name="schema-conflict",
        summary="An operator is defined twice, with different schemas.",
        fix=_OTHER_BUILD,
        texts=_of_rule("schema-conflict"),
    ),
    ErrorCause(
        name="bad-schema-string",
        summary="A schema string is one that this torch rejects.",
        fix=_OTHER_BUILD,
        texts=(*_of_rule("bad-schema-string"), "unknown type specifier", "Unknown custom class type {class}"),
    ),
    ErrorCause(
        name="duplicate-fallback",
        summary="Two extensions register a fallback for the same dispatch key.",
        fix="load only one of them",
        texts=_of_rule("duplicate-fallback"),
    ),
    ErrorCause(
        name="kernel-signature-mismatch",
        summary="Two kernels of one operator have different C++ signatures.",
        fix=_OTHER_BUILD,
        texts=_of_rule("kernel-signature-mismatch"),
    ),
    ErrorCause(
        name="kernel-schema-mismatch",
        summary="A kernel has other parameters than the schema of its operator.",
        fix=_OTHER_BUILD,
        texts=_of_rule("kernel-schema-mismatch"),
    ),
    ErrorCause(
        name="custom-class-conflict",
        summary="Two libraries register a class of the same name.",
        fix="load the extension once; uninstall the second copy",
        texts=_of_rule("custom-class-conflict"),
    ),
    ErrorCause(
        name="registry-conflict",
        summary="Two libraries register something that torch takes only once.",
        fix="load only one of the two extensions in a process",
        texts=_of_rule("registry-conflict"),
    ),
    ErrorCause(
        name="library-block-misuse",
        summary="The code that registers operators does what this torch forbids.",
        fix=_REPORT,
        texts=_of_rule("library-block-misuse"),
    ),
    ErrorCause(
        name="stable-type-unsupported",
        summary="An operator of the stable ABI uses a type that this torch cannot pass on.",
        fix="install a newer torch, or an older build of the extension",
        texts=("Not yet supported conversion from {from} to {to}",),
    ),
    ErrorCause(
        name="missing-torch-name",
        summary="The code uses a Python name that this torch does not have.",
        fix="install a version of the package for this torch",
        texts=(
            "cannot import name '{name}' from 'torch.{module}'",
            "cannot import name '{name}' from 'torch'",
            "module 'torch.{module}' has no attribute '{name}'",
            "module 'torch' has no attribute '{name}'",
            "No module named 'torch.{module}'",
            *(f"type object '{shown}' has no attribute '{{name}}'" for shown in CLASSES_IN_ERRORS),
            *(f"'{shown}' object has no attribute '{{name}}'" for shown in CLASSES_IN_ERRORS),
        ),
    ),
    ErrorCause(
        name="torch-not-installed",
        summary="The Python that runs has no torch.",
        fix="install torch in this environment, or run the Python that has it",
        texts=("No module named 'torch'",),
    ),
    ErrorCause(
        name="built-for-another-torch",
        summary="The package has no build for this torch, and says so.",
        fix=_OTHER_BUILD,
        texts=(
            "Skipping import of cpp extensions due to incompatible torch version {torch} for {package} version",
            "xFormers can't load C++/CUDA extensions",
            "Trying to load {package} with torch v{torch}, we found builds for",
        ),
    ),
    ErrorCause(
        name="missing-kernel",
        summary="The operator is there, but has no kernel for this device: the build that is loaded is one without it.",
        fix="install a build of the package for this device (CUDA, ROCm, …) and this torch",
        texts=(
            *_of_rule("missing-kernel"),
            "The operator '{operator}' is not currently implemented for the {key} device",
            "xFormers wasn't build with CUDA support",
            "Not compiled with GPU support",
            "Not compiled with CUDA support",
        ),
    ),
    ErrorCause(
        name="missing-operator",
        summary="No loaded library registers the operator: the extension failed to load before, or was not loaded.",
        fix="look for an earlier load error, and install a build of the package made for this torch",
        texts=(
            *_of_python(
                torch_texts.NO_OPERATOR_FOR_META,
                torch_texts.NO_OPERATOR,
                torch_texts.NO_OVERLOAD,
                "no operator for custom_ops",
            ),
            "Couldn't load custom C++ ops",
            "could not find any functions with the schema {operator}",
        ),
    ),
    ErrorCause(
        name="missing-operator-lookup",
        summary="The extension looks up an operator that this torch does not have.",
        fix=_OTHER_BUILD,
        texts=_of_rule("missing-operator-lookup"),
    ),
    ErrorCause(
        name="model-operator-missing",
        summary="The model uses an operator or a class that no library in this process registers.",
        fix="import the package that registers it before the model is loaded",
        texts=("Unknown builtin op: {operator}", "Unknown type name '__torch__.torch.classes.{class}'"),
    ),
    ErrorCause(
        name="model-pickles-classes",
        summary="The file has pickled classes, which torch.load does not accept by default from 2.6 on.",
        fix="torch.load(file, weights_only=False) for a file that you trust; torch.serialization.add_safe_globals "
        "for single classes",
        texts=("Weights only load failed", "Unsupported global: GLOBAL {global}"),
    ),
    ErrorCause(
        name="model-not-readable",
        summary="The file was saved in a format that this torch does not read.",
        fix=_SAVE_AGAIN,
        texts=(
            "Attempted to read a PyTorch file with version {version}, but the maximum supported version for reading",
            "Attempted to read a PyTorch file with version {version}, but the minimum supported version for reading",
            "There is no item named 'version' in the archive",
            "Serialized version {of_file} does not match our current schema version",
            "Saved archive version {version} does not match our current archive version",
            "We ran into an error when deserializing the saved file",
            "Version in the saved file has incorrect length",
            "No AOTInductor generate cpp file or so file found in zip archive",
            "Unable to find file with suffix .{suffix}",
            "Lite Interpreter version number does not match",
            "invalid literal for int() with base 10: b'{schema_version}'",
        ),
    ),
    ErrorCause(
        name="model-lacks-function",
        summary="The library of a compiled model lacks a function that this torch calls.",
        fix="compile the model again with this torch",
        texts=("Could not dlsym {symbol}", "Error in dlsym: {file}"),
    ),
    ErrorCause(
        name="model-operator-changed",
        summary="The model calls an operator with other parameters than this torch has.",
        fix=_SAVE_AGAIN,
        texts=("Arguments for call are not valid.\nThe following variants are available", "Failed deserializing node"),
    ),
    ErrorCause(
        name="no-kernel-image",
        summary="The extension, or torch, has no code for this GPU.",
        fix="install a build for this GPU, or build it with TORCH_CUDA_ARCH_LIST set to its compute capability",
        texts=(
            "no kernel image is available for execution on the device",
            "invalid device function",
            "Unable to find code object for all current devices",
            "is not compatible with the current PyTorch installation",
        ),
    ),
    ErrorCause(
        name="gpu-too-old",
        summary="The package, or torch, has no code for GPUs as old as this one.",
        fix="use a newer GPU, or an older version of what fails, or what it has in its place (torch's own attention)",
        texts=(
            "FlashAttention only supports Ampere GPUs or newer",
            "FlashAttention only support fp16 and bf16 data type",
            "which is too old to be supported by the triton GPU compiler",
            "PyTorch no longer supports this GPU because it is too old",
        ),
    ),
    ErrorCause(
        name="ptx-too-new",
        summary="The driver is older than the compiler of CUDA that made the code for the GPU.",
        fix="install a newer driver, or a build for an older CUDA",
        texts=("the provided PTX was compiled with an unsupported toolchain",),
    ),
    ErrorCause(
        name="compression-too-new",
        summary="The code for the GPU is compressed in a way that the driver does not know.",
        fix="install a newer driver, or a build for an older CUDA",
        texts=("device kernel image is invalid",),
    ),
    ErrorCause(
        name="driver-too-old",
        summary="The driver of the GPU is older than the CUDA of this torch needs.",
        fix="install a newer driver, or a build of torch for an older CUDA",
        texts=(
            "NVIDIA driver on your system is too old",
            "CUDA driver version is insufficient for CUDA runtime version",
        ),
    ),
    ErrorCause(
        name="cuda-runtime-mismatch",
        summary="Torch and the extension, or the compiler that builds it, are for different versions of CUDA.",
        fix="use builds of both for the same CUDA; to build, use the CUDA of torch.version.cuda",
        texts=(
            "The detected CUDA version ({version}) mismatches the version that was used to compile PyTorch",
            "Detected that PyTorch and {package} were compiled with different CUDA",
        ),
    ),
    ErrorCause(
        name="cudnn-mismatch",
        summary="The process has loaded another cuDNN than the one that this torch was built with.",
        fix="take the other one out of LD_LIBRARY_PATH, or uninstall it: wheels of torch bring or require their own",
        texts=(
            "cuDNN version incompatibility: PyTorch was compiled against",
            "cuDNN version mismatch: PyTorch was compiled against",
        ),
    ),
    ErrorCause(
        name="cpu-build",
        summary="This torch is a build without CUDA.",
        fix="install a build of torch for CUDA (https://pytorch.org/get-started/locally)",
        texts=("Torch not compiled with CUDA enabled",),
    ),
    ErrorCause(
        name="no-compiler",
        summary="An extension is compiled as it is imported, and what compiles it is missing.",
        fix="install what is missing, or a version of the package with compiled libraries",
        texts=_of_python(torch_texts.NO_NINJA, torch_texts.NO_CUDA_HOME),
    ),
    ErrorCause(
        name="unsupported-annotation",
        summary="An operator in Python has an annotation from which this torch cannot infer its schema.",
        fix="install a version of the package for this torch, or a newer torch",
        texts=("infer_schema(func): Parameter {parameter} has unsupported type", "infer_schema(func): {problem}"),
    ),
    ErrorCause(
        name="name-now-in-torch",
        summary="The package registers a class that this torch has of its own.",
        fix="install a newer version of the package, or an older torch",
        texts=("'{name} is already registered in {registry} at torch.{module}'",),
    ),
    ErrorCause(
        name="newer-python",
        summary="The package was written for an older Python.",
        fix="install a newer version of the package, or use an older Python",
        texts=("mutable default {type} for field {field} is not allowed: use default_factory",),
    ),
    ErrorCause(
        name="requirement-conflict",
        summary="Two installed packages require different versions of a third.",
        fix="install versions that go together",
        texts=(
            "{package} {version} requires {requirement}, but you have {installed} which is incompatible",
            "is required for a normal functioning of this module, but found {installed}",
        ),
    ),
    ErrorCause(
        name="missing-name",
        summary="The code uses a name that the installed version of another package does not have.",
        fix="install versions of both packages that go together",
        texts=(
            "cannot import name '{name}' from '{module}'",
            "module '{module}' has no attribute '{name}'",
            "No module named 'triton.{module}'",
            "'module' object has no attribute '{name}'",
        ),
    ),
    ErrorCause(
        name="incompatible-arguments",
        summary="A compiled function is called with other arguments than it takes. The Python code that calls it is of "
        "another version, passes what it should not, or has objects of a pybind11 that the module does not share.",
        fix="install versions of both that go together, such as those that the package that calls it requires",
        texts=(
            "{function}(): incompatible function arguments. The following argument types are supported",
            "incompatible constructor arguments. The following argument types are supported",
        ),
    ),
    ErrorCause(
        name="missing-module",
        summary="A module is not installed in the Python that runs, or not in this version of its package.",
        fix="install the package that has it; if it is a compiled module of a package that is installed, a build for "
        "this Python",
        texts=("No module named '{module}'",),
    ),
    ErrorCause(
        name="library-not-loaded",
        summary="A library of a package could not be loaded; why is in the error before this one.",
        fix="look at the cause that is printed before, or check the package",
        texts=(
            *_of_python(torch_texts.NOT_LOADED, torch_texts.NO_BACKEND),
            "Could not load libtorchcodec",
            "name '_C' is not defined",
            "Failed to load custom C++ ops",
            "CUDA Setup failed despite GPU being available",
            "CUDA Setup failed despite CUDA being available",
        ),
    ),
    ErrorCause(
        name="kernel-override",
        summary="The extension replaces a kernel of torch.",
        fix="no action needed if that is what the extension is for; otherwise load it once",
        texts=_of_rule("kernel-override"),
        warns=True,
    ),
    ErrorCause(
        name="numpy-abi",
        summary="A compiled module was built for numpy 1, and numpy 2 is installed.",
        fix="pip install 'numpy<2', or a newer build of the module",
        texts=("A module that was compiled using NumPy 1.x cannot be run in NumPy {version}",),
        warns=True,
    ),
    ErrorCause(
        name=CHANGED_PARAMETERS,
        summary="A function of torch is called with a parameter that it does not have in this release.",
        fix="install a version of the package for this torch",
        texts=("{function}() got an unexpected keyword argument '{parameter}'",),
    ),
    ErrorCause(
        name="crash",
        summary="The process followed an invalid pointer. The text names no cause; a library that was "
        "compiled for other layouts of torch's classes is one.",
        fix="check the extensions that the process loads",
        texts=(CRASH.message,),
        warns=True,
    ),
)
"""Those nearest to the root first: an operator is missing because its library was not loaded."""
