"""The commands in a document: shell blocks and inline code, as lists of words, and what of them does not exist."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from functools import cache

import botocore.session
from botocore import xform_name

from local import template as local_template
from tests.unit.template.facts import ROOT, Template

# Options of the command line itself, of any operation.
GLOBAL = {"query", "output", "region", "cli-binary-format", "no-paginate", "max-items"}
# Commands that the command line adds to the operations of a service.
ADDED = {
    ("s3", "sync"), ("s3", "cp"), ("ecr", "get-login-password"), ("cloudformation", "deploy"),
    ("cloudformation", "wait"), ("rds", "generate-db-auth-token"),
}  # fmt: skip
# Options that the command line gives another name than the service.
RENAMED = {("sns", "subscribe"): {"notification-endpoint"}, ("cloudfront", "create-invalidation"): {"paths"}}
WORDS_OF_SHELL = {"|", "||", "&&", ";", "do", "done", "then"}


@cache
def operations(service: str) -> dict[str, set[str]]:
    """Operation -> its options, as the command line names them."""
    model = botocore.session.get_session().get_service_model(service)
    found = {}
    for name in model.operation_names:
        shape = model.operation_model(name).input_shape
        members = shape.members if shape else {}
        options = {xform_name(member, "-") for member in members}
        flags = {f"no-{one}" for one in options}
        found[xform_name(name, "-")] = options | flags
    return found


class Document:
    def __init__(self, name: str) -> None:
        self.text = (ROOT / "docs" / name).read_text("utf-8")
        self.blocks: list[str] = re.findall(r"^ *```sh\n(.*?)^ *```", self.text, re.MULTILINE | re.DOTALL)
        self._inline = re.findall(r"`((?:aws|sam|make|docker) [^`]+)`", self.text)

    def calls(self, program: str) -> Iterator[list[str]]:
        """Each call of a program in the document, also inside $(…), as a list of words."""
        for block in [*self.blocks, *(" ".join(one.split()) for one in self._inline)]:
            text = re.sub(r"<[^>\n]+>", "placeholder", block).replace("\\\n", " ")
            for start in re.finditer(rf"(?:^|[\s(;&|])({program}) ", text):
                rest = re.split(r"[)\n]|&& |; | \| ", _without_quotes(text[start.start(1) :]))[0]
                words = shlex.split(text[start.start(1) : start.start(1) + len(rest)])
                yield [word for word in words if word not in WORDS_OF_SHELL]

    def shell_errors(self) -> Iterator[str]:
        for block in self.blocks:
            done = subprocess.run(["bash", "-n"], input=block, capture_output=True, text=True, check=False)
            if done.returncode:
                yield f"{block.strip()[:60]}: {done.stderr}"

    def unknown_aws_calls(self) -> Iterator[str]:
        for _, service, operation, *rest in self.calls("aws"):
            if (service, operation) in ADDED:
                continue
            known = operations({"deploy": "codedeploy"}.get(service, service))
            if operation not in known:
                yield f"aws {service} {operation}"
                continue
            options = {word[2:].partition("=")[0] for word in rest if word.startswith("--")}
            options -= RENAMED.get((service, operation), set())
            yield from (f"aws {service} {operation} --{one}" for one in options - known[operation] - GLOBAL)

    def unknown_targets(self) -> Iterator[str]:
        """Targets of make and environments of samconfig.toml that do not exist."""
        targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
        sections = set(re.findall(r"^\[(\w+)\.deploy", (ROOT / "samconfig.toml").read_text(), re.MULTILINE))
        for _, target, *rest in self.calls("make"):
            if target not in targets:
                yield target
            named = {word.partition("=")[2] for word in rest if word.startswith("ENV=")}
            yield from {one for one in named if not one.startswith("$")} - sections

    def parameters(self) -> set[str]:
        given = re.findall(r"(?:PARAMETERS=\"?|--parameter-overrides )((?:[A-Z]\w+=[^\s\"`]* ?)+)", self.text)
        return {pair.partition("=")[0] for text in given for pair in text.split()}

    def unknown_resources(self, root: Template) -> Iterator[str]:
        """Outputs and logical ids that the functions `out` and `id` ask for and the template does not have."""
        outputs = {first or second for first, second in re.findall(r"\$\(out (\w+)\)|`out (\w+)`", self.text)}
        yield from outputs - root.body["Outputs"].keys()
        nested = {
            name: local_template.read(ROOT / one["Properties"]["Location"])["Resources"]
            for name, one in local_template.read(ROOT / "template.yaml")["Resources"].items()
            if one["Type"] == "AWS::Serverless::Application"
        }
        variables = dict(re.findall(r"(\w+)=\$\(id (\w+)\)", self.text))
        for name, inside in re.findall(r"\$\(id (\w+)(?: \$(\w+))?\)", self.text):
            known = nested[variables[inside]] if inside else {**root.resources, **nested}
            if name not in known:
                yield name


def _without_quotes(text: str) -> str:
    """The text with quoted parts and $(…) blanked, so that separators in them are not found."""
    text = re.sub(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"", lambda found: "x" * len(found[0]), text)
    while found := re.search(r"\$\([^()]*\)|\$\{[^}]*\}", text):
        text = text[: found.start()] + "x" * len(found[0]) + text[found.end() :]
    return text
