import { existsSync } from "node:fs";
import { readFile, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { beforeAll, expect, it } from "vitest";
import { newFolder } from "#tests/support/new-folder.ts";
import { filesBelow } from "../bundle/build-folder.ts";
import { copyDeploymentFiles, renderDocuments } from "./render-documents.ts";

const dir = newFolder();
beforeAll(async () => {
  await renderDocuments(join(dir, "docs"));
  await copyDeploymentFiles(join(dir, "deploy"));
});

it("every link and image of the pages leads to a page, a heading or a file of the release", async () => {
  const pages = (await filesBelow(join(dir, "docs"))).filter((path) => path.endsWith(".html"));
  expect(pages).toEqual(
    expect.arrayContaining(["index.html", "readme.html", "changelog.html", "install.html"]),
  );
  const texts = new Map<string, string>();
  for (const page of pages)
    texts.set(join(dir, "docs", page), await readFile(join(dir, "docs", page), "utf8"));
  const broken: string[] = [];
  for (const [page, html] of texts)
    for (const [, target = ""] of html.matchAll(/(?:href|src)="([^"]*)"/g)) {
      if (/^[a-z]+:/.test(target)) continue;
      const [file = "", anchor] = target.split("#");
      const path = file === "" ? page : join(dirname(page), file);
      if (!existsSync(path)) broken.push(`${page}: ${target}`);
      else if (anchor !== undefined && !texts.get(path)?.includes(`id="${anchor}"`))
        broken.push(`${page}: ${target}`);
    }
  expect(broken).toEqual([]);
});

it("a page has its text, no comment of the repository's tests, and no link to a source file", async () => {
  const install = await readFile(join(dir, "docs/install.html"), "utf8");
  expect(install).toContain("<title>Install</title>");
  expect(install).toContain('<h2 id="kubernetes">');
  const all = await Promise.all(
    ["install", "release", "readme"].map((name) =>
      readFile(join(dir, `docs/${name}.html`), "utf8"),
    ),
  );
  expect(all.join("\n")).not.toMatch(/<!-- |href="[^"]*\.(ts|md)["#]/);
});

it("has units, Compose with its scripts, manifests, dashboard and alerts", async () => {
  for (const path of [
    "compose.yaml",
    "packaging/compose/make-secrets.sh",
    "packaging/systemd/svc-server.service",
    "docs/deploy/kubernetes/core.yaml",
    "docs/deploy/monitoring/dashboard.json",
    "docs/deploy/monitoring/alerts.yaml",
  ])
    expect((await stat(join(dir, "deploy", path))).isFile(), path).toBe(true);
});
