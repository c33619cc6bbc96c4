import { chmodSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, expect, it } from "vitest";
import { parseCoreConfig } from "#functions/config/core-config.ts";
import { coreEnvironment } from "#scripts/lab/core-environment.ts";
import { createTestLog, type TestLog } from "#tests/fakes/log.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { readTrustedFile } from "../config-files.ts";
import { checkEach } from "../reload-files.ts";
import { followVariables } from "./follow-variables.ts";

const dir = newFolder();

/** Replaces a file in one step, as a careful program does. */
const put = (name: string, contents: string) => {
  writeFileSync(join(dir, "new"), contents);
  chmodSync(join(dir, "new"), 0o600);
  renameSync(join(dir, "new"), join(dir, name));
};

let log: TestLog;
beforeEach(() => {
  log = createTestLog();
});

const follow = async (variable: string, contents: string, more: Record<string, string> = {}) => {
  put(variable, contents);
  const env = {
    ...coreEnvironment("postgres://core@localhost/core"),
    ...more,
    [`${variable}_FILE`]: join(dir, variable),
  };
  const { config } = parseCoreConfig(env, (path) => readTrustedFile(path).toString("utf8"));
  const { followed } = await followVariables(config, log);
  const files = followed.find(({ name }) => name === `${variable}_FILE`);
  return { config, fault: () => files?.fault(), check: () => checkEach(followed) };
};

it("uses changed receivers of watches; keeps the old ones, and quotes no secret, while the file is invalid", async () => {
  const secret = `whsec_${btoa("a secret of 24 bytes at least")}`;
  const receiver = (name: string, more = "") =>
    `web_url: https://fleet.test\nreceivers: [{kind: webhook, name: ${name}, url: 'https://hooks.test', secret: ${secret}${more}}]\n`;
  const variable = "SVC_WATCH_RECEIVERS";
  const { config, fault, check } = await follow(variable, receiver("on-call"));
  const names = () => config.watches()?.receivers.map(({ name }) => name);
  put(variable, receiver("night"));
  await check();
  expect([names(), fault()]).toEqual([["night"], undefined]);
  for (const [text, message] of [
    [receiver("day", ", colour: red"), "receivers.0.colour is not known"],
    [receiver("day").replace(secret, `${secret}!`), "receivers.0.secret must be whsec_"],
    ["", "SVC_WATCH_RECEIVERS_FILE: the file is empty"],
  ] as const) {
    put(variable, text);
    await check();
    expect([names(), fault()]).toEqual([["night"], expect.stringContaining(message)]);
  }
  rmSync(join(dir, variable));
  await check();
  expect([names(), fault()]).toEqual([
    ["night"],
    expect.stringContaining("SVC_WATCH_RECEIVERS_FILE"),
  ]);
  put(variable, receiver("day"));
  await check();
  expect([names(), fault()]).toEqual([["day"], undefined]);
  expect(log.text()).not.toContain(secret);
});
