import { expect, it } from "vitest";
import { type CommandLine, failsWith, startTestAdmin, wordsOf } from "./support/admin.ts";

const receivers = `web_url: https://fleet.test
receivers:
  - {kind: webhook, name: on-call, url: 'https://hook.test', secret: 'whsec_${btoa("a secret of 24 bytes at least")}'}`;
const { adminAt } = await startTestAdmin({ core: { env: { SVC_WATCH_RECEIVERS: receivers } } });
const admin = adminAt();

const run = (...line: CommandLine) => admin.run("watches", ...wordsOf(line));
const json = (...line: CommandLine) => admin.json("watches", ...wordsOf(line));

it("makes, shows, changes, silences, tests and deletes a watch by its name", async () => {
  const made = await json`create ${"stale hosts"} state:stale label.env:prod --more-than 5 --for 10m
      --receiver on-call`;
  expect(made).toMatchObject({
    filter: "state:stale label.env:prod",
    more_than: 5,
    for_seconds: 600,
  });
  expect((await run`list --state inactive`).out).toContain("> 5 for 10m");
  expect(await json`list --state firing`).toEqual([]);
  const changed = await json`update ${"stale hosts"} --more-than 20 --name ${"many stale"}`;
  expect(changed).toEqual({ ...made, name: "many stale", more_than: 20, revision: 2 });
  expect(await json`update ${"many stale"} --query ${""} --no-receivers`).toMatchObject({
    filter: "",
    receivers: [],
    revision: 3,
  });
  await json`update ${"many stale"} --receiver on-call`;
  expect(await json`silence ${"many stale"} --for 2h --reason ${"rack 4"}`).toMatchObject({
    silence: { reason: "rack 4" },
  });
  const { exitCode, err } = await run("test", "many stale");
  expect([exitCode, err]).toEqual([
    0,
    expect.stringContaining(`svc-admin watches show ${made.id}`),
  ]);
  expect(await json("show", made.id)).toMatchObject({
    waiting_messages: 1,
    history: [{ kind: "silenced" }],
  });
  expect((await run("show", "many stale")).out).toMatch(/silenced .*until .*, rack 4/);
  expect(await run("delete", "many stale")).toMatchObject({ exitCode: 2 });
  expect(await run`delete ${"many stale"} --yes`).toMatchObject({ exitCode: 0 });
  expect(await run("show", "many stale")).toEqual(failsWith(2, "watches list"));
});

it("says what is wrong with a query, and takes a duration alone as a time", async () => {
  const { exitCode, err } = await run`create wrong stat:stale`;
  expect([exitCode, err]).toEqual([
    expect.any(Number),
    expect.stringContaining("There is no stat:"),
  ]);
  expect(exitCode).not.toBe(0);
  expect(await run`silence wrong --for soon`).toMatchObject({ exitCode: 2 });
});
