#!/usr/bin/env python3
"""metadata.py PYPROJECT VERSION METADATA ENTRY_POINTS: writes what an installed package says of
itself, out of pyproject.toml: its name and version, which pip and importlib.metadata tell, and its
entry points, by which other packages find it. In a wheel meson-python writes them. Needs Python
3.11."""

import pathlib
import sys
import tomllib


def metadata(project, version):
    lines = ["Metadata-Version: 2.1", "Name: " + project["name"], "Version: " + version, "Summary: " + project["description"],
             "Requires-Python: " + project["requires-python"]]
    return lines + ["Requires-Dist: " + need for need in project["dependencies"]]


def entry_points(project):
    lines = []
    for group, points in project.get("entry-points", {}).items():
        lines += ["[%s]" % group] + ["%s = %s" % point for point in points.items()]
    return lines


def main(arguments):
    if arguments[:1] in (["-h"], ["--help"]) or len(arguments) != 4:
        print(__doc__)
        return 0 if arguments[:1] in (["-h"], ["--help"]) else 2
    pyproject, version, *outputs = arguments
    project = tomllib.loads(pathlib.Path(pyproject).read_text(encoding="utf-8"))["project"]
    for out, lines in zip(outputs, (metadata(project, version), entry_points(project))):
        pathlib.Path(out).write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
