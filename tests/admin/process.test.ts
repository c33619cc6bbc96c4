import { execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { transformSync } from "esbuild";
import { describe, expect, it } from "vitest";
import { programEntries } from "#scripts/bundle/bundle-programs.ts";
import { programFile } from "../support/program.ts";
import { useTestWeb } from "../support/web.ts";
import { createAdminUser } from "./support/admin.ts";

const web = await useTestWeb();
const user = createAdminUser();
const tokenFile = join(user.home, "token");
writeFileSync(tokenFile, await web.core.bridgeToken("admin"));

const main = programFile("admin/main.ts");
/** Starts svc-admin as a process. */
const start = (...args: string[]) => {
  const child = spawn(process.execPath, [main, ...args], {
    env: {
      PATH: process.env.PATH,
      HOME: user.home,
      SVC_ADMIN_URL: web.origin,
      SVC_ADMIN_TOKEN_FILE: tokenFile,
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let err = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    err += text;
  });
  const ended = once(child, "close").then(([code]) => ({ code: code as number | null, err }));
  return { child, ended };
};

describe("the process", () => {
  it("is started again by no unit after it has ended with 2 or 78", () => {
    for (const unit of ["svc-collector", "svc-server", "svc-web"])
      expect(readFileSync(`packaging/systemd/${unit}.service`, "utf8")).toMatch(
        /\nRestart=always\n(.+\n)*RestartPreventExitStatus=2 78\n/,
      );
  });

  it.each(["svc-admin", "svc-server", "svc-collector", "svc-web"] as const)(
    "V6: %s asks for a newer Node under an old one, without a stack trace, and in syntax of Node 12",
    (name) => {
      const launcher = readFileSync(programFile(programEntries[name]), "utf8");
      expect(() =>
        transformSync(launcher, { target: "node12.22", format: "esm", loader: "js" }),
      ).not.toThrow();
      const old = `data:text/javascript,for (const [name, value] of [["version", "v20.1.0"], ["versions", { node: "20.1.0" }]])
        Object.defineProperty(process, name, { value })`;
      const { status, stdout, stderr } = spawnSync(
        process.execPath,
        ["--import", old, programFile(programEntries[name]), "--version"],
        { encoding: "utf8", env: {} },
      );
      expect({ status, stdout, stderr }).toEqual({
        status: 78,
        stdout: "",
        stderr: `${name} needs Node 26 or later: install it in place of ${process.execPath}, which is v20.1.0\n`,
      });
    },
  );

  it.each(["table", "json", "csv", "yaml"])(
    "V6: prints %s from the bundle that ships",
    async (format) => {
      const { child, ended } = start("fleet", "list", "-o", format);
      child.stdout.resume();
      expect(await ended).toEqual({ code: 0, err: "" });
    },
  );

  it("ends with 0, silently, when nobody reads its output any more", async () => {
    const { child, ended } = start("completion", "bash");
    child.stdout.destroy();
    expect(await ended).toEqual({ code: 0, err: "" });
    const watch = start("fleet", "list", "--watch", "--interval", "1s");
    await once(watch.child.stdout, "data");
    watch.child.stdout.destroy();
    expect(await watch.ended).toEqual({ code: 0, err: "" });
  });

  it.each(["SIGINT", "SIGTERM"] as const)(
    "%s ends a watch with 130, without a stack trace",
    async (signal) => {
      const { child, ended } = start("fleet", "list", "--watch", "--interval", "1h");
      await once(child.stdout, "data");
      child.kill(signal);
      expect(await ended).toEqual({ code: 130, err: "" });
    },
  );
});

describe("completions", () => {
  // The last word is the one that is completed.
  const cases = [
    ["svc-admin pol", "policies"],
    ["svc-admin policies ", "list show create freeze"],
    ["svc-admin --url http://127.0.0.1 policies f", "freeze"],
    ["svc-admin policies create web --r", "--reenrollment"],
    ["svc-admin policies create --reenrollment ", "deny replace"],
    ["svc-admin configs show 0192 --o", "--output"],
    ["svc-admin fleet list -o ", "table json csv yaml"],
    ["svc-admin telemetry read web-1 -o ", "text json otlp"],
    ["svc-admin telemetry read web-1 --o", "--output"],
    ["svc-admin nonsense ", ""],
    ["svc-admin nonsense policies ", ""],
    // The values that this command takes, and not those that another one does.
    ["svc-admin policies list --state ", "active frozen"],
    ["svc-admin tokens list --state ", "active exhausted expired revoked"],
    // A flag of one command takes a value in another.
    ["svc-admin login --device --u", "--url"],
    ["svc-admin login --device --w", ""],
    ["svc-admin tokens create --device web --sho", "--show"],
    ["svc-admin tokens create --out file --sho", ""],
    ["svc-admin tokens create --policy policies --o", "--out --output"],
    ["svc-admin tokens create --policy ", ""],
    ["svc-admin completion ", "bash zsh fish --url --output --yes --help"],
    ["svc-admin completion bash z", ""],
    ["svc-admin --ver", "--version"],
    ["svc-admin whoami --ver", ""],
    ["svc-admin fleet listing --l", ""],
  ];

  it.each(cases)("complete %s", async (line, expected) => {
    const [, ...words] = line.split(" ");
    const { out } = await user.run("__complete", ...words);
    expect(out.replaceAll(/\t.*/g, "").split("\n").slice(0, -1).join(" ")).toBe(expected);
  });

  it.runIf(existsSync("/bin/bash"))("are those of the program in bash", async () => {
    const { out } = await user.run`completion bash`;
    const script = `${out}
svc-admin() { ${process.execPath} ${main} "$@"; }
COMP_WORDS=(svc-admin policies create --reenrollment ""); COMP_CWORD=4; _svc_admin; echo "\${COMPREPLY[*]}"
COMP_WORDS=(svc-admin fleet l); COMP_CWORD=2; _svc_admin; echo "\${COMPREPLY[*]}"`;
    const printed = execFileSync("/bin/bash", ["--norc", "-u", "-c", script], { encoding: "utf8" });
    expect(printed).toBe("deny replace\nlist\n");
  });

  it("are written for zsh and fish too", async () => {
    const zsh = (await user.run`completion zsh`).out;
    expect(zsh).toMatch(/^autoload -U \+X compinit && compinit\n/);
    expect((await user.run`completion fish`).out).toMatch(/^complete -c svc-admin -f -a /);
    expect((await user.run("__complete", "pol")).out).toMatch(/^policies\t\w/);
    expect(await user.run`completion powershell`).toMatchObject({ exitCode: 2, out: "" });
  });
});
