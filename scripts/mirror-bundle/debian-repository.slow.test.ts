import { execFileSync } from "node:child_process";
import { hash } from "node:crypto";
import { appendFile, copyFile, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { expect, it } from "vitest";
import { newFolder } from "#tests/support/new-folder.ts";
import { findProgram } from "../images/container-tools.ts";
import { buildDebianPackage } from "../package-collector/build-debian-package.ts";
import { signDebianRepository, writeDebianRepository } from "./debian-repository.ts";

const tools = ["apt-get", "dpkg-deb", "gpg"];

it.skipIf(!tools.every((tool) => findProgram(tool)))(
  "apt finds the package of each architecture in a repository of plain files, and refuses a changed one (needs apt and gpg)",
  { timeout: 60_000 },
  async () => {
    const dir = newFolder();
    const folder = join(dir, "mirror");
    await mkdir(folder);
    await writeFile(join(dir, "program"), "#!/bin/sh\n");
    const contents = {
      executable: join(dir, "program"),
      completions: { bash: "", zsh: "", fish: "" },
      notices: "",
    };
    const artifacts = [];
    for (const platform of ["linux-x64", "linux-arm64"] as const) {
      const { path } = await buildDebianPackage(join(dir, platform), {
        ...contents,
        version: "0.3.0",
        platform,
      });
      await copyFile(path, join(folder, basename(path)));
      const bytes = await readFile(path);
      const sha256 = hash("sha256", bytes);
      artifacts.push({
        path: basename(path),
        kind: "debian-package",
        platform,
        size_bytes: bytes.length,
        sha256,
      });
    }
    await writeDebianRepository(folder, { artifacts }, new Date("2026-01-02T03:04:05Z"));
    await signDebianRepository(folder, undefined);

    const apt = join(dir, "apt");
    for (const name of [
      "etc/apt.conf.d",
      "etc/preferences.d",
      "lists/partial",
      "cache/archives/partial",
    ])
      await mkdir(join(apt, name), { recursive: true });
    const source = `deb [signed-by=${join(folder, "collector-fleet.gpg")}] file:${folder} stable main\n`;
    await writeFile(join(apt, "etc/sources.list"), source);
    const settings = [
      `Dir::Etc=${join(apt, "etc")}`,
      `Dir::State::lists=${join(apt, "lists")}`,
      `Dir::Cache=${join(apt, "cache")}`,
      "APT::Architectures=amd64,arm64",
      "APT::Sandbox::User=root",
      "APT::Update::Error-Mode=any",
    ];
    const run = (program: string, ...args: string[]) =>
      execFileSync(program, [...settings.flatMap((setting) => ["-o", setting]), ...args], {
        encoding: "utf8",
        cwd: apt,
        stdio: ["ignore", "pipe", "pipe"],
        timeout: 30_000,
      });
    run("apt-get", "update");
    for (const architecture of ["amd64", "arm64"]) {
      expect(run("apt-cache", "policy", `svc-collector:${architecture}`)).toContain(
        "Candidate: 0.3.0\n",
      );
      run("apt-get", "download", `svc-collector:${architecture}`);
    }
    await rm(join(apt, "svc-collector_0.3.0_amd64.deb"));
    await appendFile(join(folder, "svc-collector_0.3.0_amd64.deb"), "x");
    expect(() => run("apt-get", "download", "svc-collector:amd64")).toThrow();
    const inRelease = join(folder, "dists/stable/InRelease");
    await writeFile(
      inRelease,
      (await readFile(inRelease, "utf8")).replace("Suite: stable", "Suite: testing"),
    );
    expect(() => run("apt-get", "update")).toThrow(/BADSIG|not signed|invalid/);
  },
);
