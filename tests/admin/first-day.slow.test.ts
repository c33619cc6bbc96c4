import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { dirname, join } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { bundlePrograms } from "#scripts/bundle/bundle-programs.ts";
import { bundleUi } from "#scripts/bundle/bundle-ui.ts";
import { readDocument } from "#scripts/docs-check/read-document.ts";
import { launchBrowser } from "#scripts/lab/browser.ts";
import { follow, press, see, waitForPage } from "#tests/support/web-in-browser.ts";
import { runScript } from "../documents/support/documented-block.ts";
import { newFolder } from "../support/new-folder.ts";

/*
 * Runs docs/first-day.md as a reader does, with a browser for the sign-in: every block of a shell that the page says this test runs, in
 * order, in one shell. Blocks that run until Ctrl-C have a terminal of their own. Only ports differ, and what root has to acknowledge.
 */
const root = new URL("../..", import.meta.url).pathname;
const dir = newFolder();
const page = "docs/first-day.md";
const blocks = readDocument(page, readFileSync(join(root, page), "utf8")).blocks.filter(
  ({ language, comment }) =>
    language === "sh" && comment?.trim() === "run by tests/admin/first-day.slow.test.ts",
);
const running: ChildProcess[] = [];
let origin = "http://localhost:3000";
let browser: Browser;

beforeAll(async () => {
  [browser] = await Promise.all([
    launchBrowser(),
    bundlePrograms(["svc-server", "svc-web", "svc-collector", "svc-admin"]),
    bundleUi(),
  ]);
  symlinkSync(join(root, "dist"), join(dir, "dist"));
  mkdirSync(join(dir, "bin"));
  const npx = `#!/bin/sh\n${runScript(root)}\n`;
  writeFileSync(join(dir, "bin/npx"), npx, { mode: 0o755 });
}, 240_000);
afterAll(async () => {
  await browser?.close();
  for (const child of running.toReversed()) {
    if (child.exitCode === null && child.signalCode === null) {
      child.kill("SIGTERM");
      await once(child, "exit");
    }
  }
});

const env = () => ({
  PATH: `${dir}/bin:${dirname(process.execPath)}:${process.env.PATH}`,
  HOME: dir,
});
const asHere = (text: string) => {
  const root = process.getuid?.() === 0 ? " --allow-root-acknowledged I-UNDERSTAND-ROOT-MODE" : "";
  return text
    .replaceAll("http://localhost:3000", origin)
    .replace("--config-dir day/host", `--config-dir day/host${root}`);
};
const block = (start: string) => {
  const found = blocks.find(({ text }) => text.includes(start));
  if (found === undefined) throw new Error(`${page} has no block with ${start}`);
  blocks.splice(blocks.indexOf(found), 1);
  return asHere(found.text);
};

/** Runs a block in a terminal of its own, until the end of the test; resolves when it has printed `until`. */
const serve = async (start: string, until: string) => {
  const child = spawn("sh", ["-c", `exec ${block(start).trim()}`], { cwd: dir, env: env() });
  running.push(child);
  let output = "";
  await new Promise<void>((resolve, reject) => {
    const read = (chunk: Buffer) => {
      output += chunk;
      if (output.includes(until)) resolve();
    };
    child.stdout.on("data", read);
    child.stderr.on("data", read);
    child.on("exit", () => reject(new Error(`${start} ended: ${output}`)));
  });
};

/** Opens the address that `svc-admin login` prints in a browser that has never been anywhere, signs Ada in and allows the program. */
const allow = async (address: string) => {
  const context = await browser.newContext();
  context.setDefaultTimeout(60_000);
  const page = await context.newPage();
  await page.goto(address);
  await follow(page, /^Sign in with/);
  await press(page, "ada@example.com");
  await press(page, "Allow");
  await see(page, "You can close this page");
  await page.goto(`${origin}/fleet`);
  await waitForPage(page, "Fleet");
  await context.close();
};

/** The reader's shell, in which blocks share functions and variables. */
const openShell = () => {
  const child = spawn("bash", ["--norc"], { cwd: dir, env: env() });
  running.push(child);
  let out = "";
  let signedIn = false;
  child.stdout.on("data", (chunk) => {
    out += chunk;
  });
  child.stderr.on("data", (chunk) => {
    out += chunk;
    const address = /http\S+\/cli\/authorize\S+/.exec(out)?.[0];
    if (address === undefined || signedIn) return;
    signedIn = true;
    allow(address).catch((error: unknown) => {
      out += String(error);
    });
  });
  return async (start: string) => {
    const before = out.length;
    child.stdin.write(`set -e\n${block(start)}\nset +e; echo "[block done]"\n`);
    await expect
      .poll(() => out.slice(before) + (child.exitCode === null ? "" : "[block ended]"), {
        timeout: 90_000,
      })
      .toMatch(/\[block \w+\]/);
    const printed = out.slice(before);
    expect(printed).toContain("[block done]");
    return printed;
  };
};

it("the first day goes from an empty database to a host that is enrolled, configured, watched and revoked, by the page's commands", async () => {
  const type = openShell();
  await type("cat >people.yaml");
  await serve("lab-services", '"ready"');
  const webEnv = readFileSync(join(dir, "day/web.env"), "utf8");
  origin = /WEBAUTH_URL="(.*)"/.exec(webEnv)?.[1] ?? "";
  await serve("day/core.env", '"ready"');
  await serve("day/web.env", '"ready"');
  await expect.poll(() => fetch(`${origin}/readyz`).then(({ status }) => status)).toBe(200);

  expect(await type("svc-admin login")).toContain("as ada@example.com (read, audit, admin)");
  expect(await type("svc-admin init")).toMatch(
    /created policy first hosts[\s\S]*svc-collector enroll \\/,
  );
  expect(await type("eval")).toContain(`spiffe://example.com/host/${hostname()}`);
  await type("awk '1; /^management:/");
  await serve("svc-collector/main.mjs run", "collector runs");
  const published = await type("configs publish");
  expect(published).toContain("+log: { level: debug }");
  expect(published).toMatch(/^Config [0-9a-f]{12} \(debugging\) for 1 host: 1 would change$/m);
  expect(await type("until svc-admin rollouts list")).toContain(
    `spiffe://example.com/host/${hostname()}`,
  );
  const simulated = await type("simulate enroll");
  expect(simulated).toContain("would be refused with identity_exists by the rule reenrollment");
  expect(simulated).toContain("spiffe://example.com/host/web-2 may enroll.");
  const records = await type("identities revoke");
  for (const action of [
    "enrollment_policy.create",
    "bootstrap_token.create",
    "collector.enroll",
    "config.publish",
    "rollout.create",
    "identity.revoke",
  ])
    expect(records).toContain(action);
  expect(blocks.map(({ text }) => text)).toEqual([]);
  expect(readFileSync(join(dir, "day/enroll.sh"), "utf8")).not.toContain("svcbt_");
}, 240_000);
