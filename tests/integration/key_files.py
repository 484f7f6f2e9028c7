"""Key files of psring keygen, for tests that look into them or change them."""

import json
import os


def read(path):
    """{section: {name: value or {name: value}}} of a certificate, or the secret one beside it."""
    found, levels = {}, [None]
    with open(path + "_secret" if os.path.exists(path + "_secret") else path) as text:
        for line in text:
            words = line.strip()
            if not words or words.startswith("#"):
                continue
            level = (len(line) - len(line.lstrip(" "))) // 4
            name, _, value = (part.strip() for part in words.partition(" = "))
            levels = levels[:level + 1]
            inside = found if level == 0 else levels[level]
            inside[name] = value.strip('"') if value else {}
            levels.append(inside[name])
    return found


def members(section):
    return [{"role": name.rpartition("-")[0], "rank": int(name.rpartition("-")[2]), "key": value} for name, value in section.items()]


def as_json(path):
    """The same as psring wrote it before certificates, and as write_as_json does."""
    if not os.path.exists(path + "_secret"):
        with open(path) as text:
            if text.read(1) == "{":
                return json.loads("{" + text.read())
    keys = read(path)
    if "token" in keys["metadata"]:
        return {"curve": False, "bare": False, "token": keys["metadata"]["token"]}
    if "shared" in keys["metadata"]:
        each = {name: pair["public-key"] for name, pair in keys["members"].items()}
        secrets = [pair["secret-key"] for pair in keys["members"].values()]
        return {"curve": True, "shared": True, "members": [dict(member, secret=secret) for member, secret in zip(members(each), secrets)]}
    if "curve" in keys:
        return {"curve": True, "public": keys["curve"]["public-key"], "secret": keys["curve"]["secret-key"], "members": members(keys["members"])}
    own = "%s-%s" % (keys["metadata"]["role"], keys["metadata"]["rank"])
    return {"curve": False, "bare": False, "own": keys["tokens"][own], "members": members(keys["tokens"])}


def write_as_json(path, **changes):
    """In the place of the certificates of that name."""
    keys = dict(as_json(path), **changes)
    for name in (path, path + "_secret"):
        if os.path.exists(name):
            os.remove(name)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(keys, file)
