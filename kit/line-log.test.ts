import { expect, it } from "vitest";
import { createTestClock } from "#tests/fakes/clock.ts";
import { systemClock } from "./clock.ts";
import { createLineLog } from "./line-log.ts";

const write = (format: "json" | "text", fields: object, message: string) => {
  const lines: string[] = [];
  createLineLog(
    { level: "info", format },
    { write: (text) => void lines.push(text) },
    systemClock,
  ).warn(fields, message);
  return lines.join("");
};

it.each(["json", "text"] as const)(
  "I5: writes one line for texts with CR, LF, U+0085, U+2028 and U+2029, as %s",
  (format) => {
    const text = write(
      format,
      { detail: "a\r\nb\u2028c\u2029d\u0085e", err: new Error("x\ny\u2028z") },
      "one\ntwo\u2028three\x1b[31m",
    );
    // Splits like Python and other Unicode-aware readers.
    expect(text.split(/\r\n|[\n\v\f\r\u0085\u2028\u2029]/)).toEqual([
      expect.stringContaining("three"),
      "",
    ]);
    expect(text).not.toContain("\x1b");
  },
);

it("writes level, time, message and fields as JSON", () => {
  expect(JSON.parse(write("json", { queue: "a\u2028b" }, "hello"))).toEqual({
    level: "warn",
    time: expect.stringMatching(/^\d{4}-.*Z$/),
    queue: "a\u2028b",
    msg: "hello",
  });
  expect(write("text", { n: 1 }, "hello")).toMatch(/^\d{4}-\S+Z WARN {2}hello \{"n":1\}\n$/);
});

it("writes a record whose fields JSON cannot represent", () => {
  const circular: { self?: object } = {};
  circular.self = circular;
  expect(JSON.parse(write("json", circular, "hello"))).toMatchObject({
    level: "warn",
    msg: "hello",
  });
  expect(JSON.parse(write("json", { n: 2n ** 60n, none: undefined }, "hello"))).toMatchObject({
    n: `${2n ** 60n}`,
  });
  expect(JSON.parse(write("json", {}, "hello"))).toMatchObject({ msg: "hello" });
});

it("writes only records of its level or above, and follows a change of level and format", () => {
  const lines: string[] = [];
  const log = createLineLog(
    { level: "info", format: "json" },
    { write: (text) => void lines.push(text) },
    systemClock,
  );
  log.debug({}, "one");
  log.info({}, "two");
  log.reload({ level: "error", format: "text" });
  log.warn({}, "three");
  log.error({}, "four");
  expect(lines).toEqual([
    expect.stringMatching(/^\{.*"msg":"two"\}\n$/),
    expect.stringMatching(/^\S+Z ERROR four\n$/),
  ]);
});

it("logs an error's name, code, message and causes, and none of its other properties", () => {
  const error = Object.assign(new Error("outer", { cause: new Error("inner") }), {
    code: "ECODE",
    cert: "PEM",
  });
  expect(JSON.parse(write("json", { err: error }, "failed")).err).toEqual({
    type: "Error",
    message: "outer",
    code: "ECODE",
    cause: { type: "Error", message: "inner" },
  });
});

it("writes the causes of an error, and no property but code and message", () => {
  const cause = Object.assign(new Error("refused"), { code: "ECONNREFUSED", secret: "hidden" });
  const line = write(
    "json",
    { err: new Error("Failed query: select 1\nparams: hidden", { cause }) },
    "failed",
  );
  expect(line).not.toContain("hidden");
  expect(line).toContain('"cause":{"type":"Error","code":"ECONNREFUSED","message":"refused"}');
});

it("W3: counts an equal warning or error for a minute instead of repeating it", async () => {
  const clock = createTestClock();
  const lines: string[] = [];
  const log = createLineLog(
    { level: "info", format: "json" },
    { write: (text) => void lines.push(text) },
    clock,
  );
  const written = () =>
    lines.splice(0).map((line) => [JSON.parse(line).msg, JSON.parse(line).repeated]);
  for (let count = 0; count < 7314; count++)
    log.error({ err: new Error("database or disk is full") }, "failed");
  log.error({ err: new Error("other") }, "failed");
  for (let count = 0; count < 2; count++) log.info({}, "reloaded");
  expect(written()).toEqual(
    [["failed"], ["failed"], ["reloaded"], ["reloaded"]].map(([msg]) => [msg, undefined]),
  );
  await clock.advance(60_000);
  expect(written()).toEqual([["failed", 7313]]);
  for (let count = 0; count < 2; count++) log.warn({}, "away");
  log.flush();
  expect(written()).toEqual([
    ["away", undefined],
    ["away", 1],
  ]);
});

it("W4: drops and counts lines while more than 1 MiB waits for its reader", () => {
  const lines: string[] = [];
  const output = { write: (text: string) => lines.push(text), writableLength: 1024 * 1024 + 1 };
  const log = createLineLog({ level: "info", format: "text" }, output, createTestClock());
  for (let count = 0; count < 3; count++) log.info({}, "lost");
  output.writableLength = 0;
  log.info({}, "read");
  expect(lines).toEqual([
    expect.stringMatching(/lines were dropped {"dropped":3}\n$/),
    expect.stringMatching(/read\n$/),
  ]);
});
