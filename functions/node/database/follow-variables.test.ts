import { chmodSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, expect, it } from "vitest";
import { type CoreConfig, parseCoreConfig } from "#functions/config/core-config.ts";
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

/** Of each variable: an old and a new content, and how the config has it. */
const values: readonly [
  variable: string,
  contents: readonly [string, string],
  read: (config: CoreConfig) => unknown,
  more?: Record<string, string>,
][] = [
  ["SVC_OPS_BEARER_TOKEN", ["old", "new"], ({ ops }) => ops.bearerToken?.reveal()],
  [
    "SVC_LICENSE",
    ["old", "new"],
    ({ license }) => license?.token.reveal(),
    { SVC_LICENSE_PUBLIC_KEY_FILE: "/key.pem" },
  ],
  [
    "SVC_DIRECTORY_SCIM_TOKEN",
    ["o".repeat(32), "n".repeat(32)],
    ({ directory: { provider } }) => provider.kind === "scim" && provider.tokens.reveal().join(),
    {
      SVC_DIRECTORY_PROVIDER: "scim",
      SVC_DIRECTORY_DELEGATE_EMAIL: "",
      SVC_DIRECTORY_SERVICE_ACCOUNT_KEY_FILE: "",
    },
  ],
  [
    "SVC_INFERENCE_API_KEY",
    ["old", "new"],
    ({ chat }) => chat?.inference.provider === "openai" && chat.inference.apiKey.reveal(),
    { SVC_INFERENCE_CHAT_MODEL: "m", SVC_INFERENCE_PROVIDER: "openai" },
  ],
];

it.each(values)("takes a new %s from its file", async (variable, [before, after], read, more) => {
  const { config, check, fault } = await follow(variable, before, more);
  expect(read(config)).toBe(before);
  put(variable, `${after}\n`);
  await check();
  expect([read(config), fault()]).toEqual([after, undefined]);
});

it("takes a new issuer of workloads, and drops one that its file no longer has", async () => {
  const issuers = (name: string) => `issuers: [{ issuer: "https://${name}.test", audience: core }]`;
  const { config, check } = await follow("SVC_WORKLOAD_ISSUERS", issuers("old"));
  const names = () => config.workloadIssuers().map(({ issuer }) => issuer);
  expect(names()).toEqual(["https://old.test"]);
  put("SVC_WORKLOAD_ISSUERS", issuers("new"));
  await check();
  expect(names()).toEqual(["https://new.test"]);
});
