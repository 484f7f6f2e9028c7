"""Arrays of other packages as what the library takes: an address, a count and a type.

Taken is what has the buffer protocol (bytes, array.array, memoryview, NumPy's arrays) or DLPack on
the CPU (PyTorch's tensors, CuPy's, JAX's), if its values lie one after another."""

import ctypes
import sys
import typing

from ._errors import UnsupportedError, usage
from ._psring import ffi, lib

TYPES = {
    "float32": lib.PSRING_FLOAT32, "float64": lib.PSRING_FLOAT64, "float16": lib.PSRING_FLOAT16,
    "bfloat16": lib.PSRING_BFLOAT16, "int8": lib.PSRING_INT8, "uint8": lib.PSRING_UINT8,
    "int16": lib.PSRING_INT16, "uint16": lib.PSRING_UINT16, "int32": lib.PSRING_INT32,
    "uint32": lib.PSRING_UINT32, "int64": lib.PSRING_INT64, "uint64": lib.PSRING_UINT64,
}
# struct's letters. A letter's size is asked of the buffer, since "l" has 4 bytes or 8.
KINDS = {"e": "float", "f": "float", "d": "float", "b": "int", "h": "int", "i": "int", "l": "int", "q": "int", "n": "int",
         "B": "uint", "H": "uint", "I": "uint", "L": "uint", "Q": "uint", "N": "uint", "?": "uint", "c": "uint"}


class Array(typing.NamedTuple):
    """A run of values. keep holds the memory for as long as the library may touch it."""

    pointer: "ffi.CData"
    count: int
    type: int
    keep: object


_readers = []  # (class, function): what reads objects of a class faster than DLPack


def register(cls: type, read: "typing.Callable[[typing.Any, bool], Array]") -> None:
    """Has read(object, writable) make the Array of objects of a class. For packages on top of this
    one."""
    _readers.append((cls, read))


def array_of(value, writable, what="the array"):
    """An Array of value. UsageError, UnsupportedError: it cannot be sent as it lies."""
    if isinstance(value, Array):
        return value
    for cls, read in _readers:
        if isinstance(value, cls):
            return read(value, writable)
    try:
        view = memoryview(value)
    except TypeError:
        if hasattr(value, "__dlpack__"):
            return _of_dlpack(value, what)
        raise usage("%s is a %s, which has neither the buffer protocol nor DLPack" % (what, type(value).__name__)) from None
    except (ValueError, BufferError):  # a NumPy type that has no letter, such as ml_dtypes.bfloat16
        if hasattr(value, "__dlpack__"):
            return _of_dlpack(value, what)
        raise
    with view:
        return _of_view(value, view, writable, what)


def _of_view(value, view, writable, what):
    letter = view.format.lstrip("@=<" if sys.byteorder == "little" else "@=>!")
    name = KINDS.get(letter, "?") + str(8 * view.itemsize)
    if name not in TYPES:
        raise usage("%s has values of format '%s', which the library does not have" % (what, view.format))
    if not view.c_contiguous:
        raise usage("%s does not lie in one piece; make it contiguous" % what)
    if writable and view.readonly:
        raise usage("%s cannot be written" % what)
    if view.nbytes == 0:
        return Array(ffi.NULL, 0, TYPES[name], value)
    keep = ffi.from_buffer(value)
    return Array(ffi.cast("void *", keep), view.nbytes // view.itemsize, TYPES[name], keep)


# ---- DLPack, version 0 of its structs, which every package still gives ----


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


_DL_KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 6: "uint"}  # 6: bool
_DL_CPU = (1, 3, 11)  # CPU, and memory of the host that a GPU reads
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype, _capsule_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def _of_dlpack(value, what):
    if hasattr(value, "__dlpack_device__") and int(value.__dlpack_device__()[0]) not in _DL_CPU:
        raise UnsupportedError("unsupported", "%s is in the memory of a device; psring takes arrays in the CPU's memory" % what)
    capsule = value.__dlpack__()
    tensor = _DLTensor.from_address(_capsule_pointer(capsule, b"dltensor"))
    if tensor.device_type not in _DL_CPU:
        raise UnsupportedError("unsupported", "%s is in the memory of a device; psring takes arrays in the CPU's memory" % what)
    name = _DL_KINDS.get(tensor.code, "?") + str(tensor.bits)
    if name not in TYPES or tensor.lanes != 1:
        raise usage("%s has values of DLPack's type %d with %d bits, which the library does not have" % (what, tensor.code, tensor.bits))
    count = 1
    for dimension in reversed(range(tensor.ndim)):
        if tensor.strides and tensor.shape[dimension] > 1 and tensor.strides[dimension] != count:
            raise usage("%s does not lie in one piece; make it contiguous" % what)
        count *= tensor.shape[dimension]
    pointer = ffi.cast("void *", (tensor.data or 0) + tensor.byte_offset)
    return Array(pointer, count, TYPES[name], (value, capsule))
