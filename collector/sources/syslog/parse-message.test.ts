import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { cpuMillisecondsOf } from "#tests/support/cpu-time.ts";
import { parseMessage } from "./parse-message.ts";

const now = Date.UTC(2026, 10, 30, 12);
const parse = (text: string, nowMs = now) => {
  const parsed = parseMessage(text, "auto", nowMs);
  if (parsed === undefined) return undefined;
  const attributes = Object.entries(parsed.attributes).map(([name, value]) => [
    name.replace("syslog.", ""),
    value,
  ]);
  return { text: parsed.text, ...Object.fromEntries(attributes) };
};
/** A time in the zone of the machine that runs the test. */
const local = (...time: [number, number, number, number, number, number, number?]) =>
  new Date(...time).toISOString();
const priority = { "facility.code": "4", "severity.code": "2" };
const assumed = "timestamp.assumed";

describe("parseMessage", () => {
  it("parses RFC 5424 with structured data", () => {
    expect(
      parse(
        '<34>1 2026-11-30T10:00:00.123456+02:00 web-1 nginx 812 ID47 [a@1 x="1" y="q\\"\\]\\\\ \\z"][b x="1" x="2"] \ufeffdone',
      ),
    ).toEqual({
      text: "done",
      ...priority,
      version: "1",
      timestamp: "2026-11-30T10:00:00.123456+02:00",
      hostname: "web-1",
      appname: "nginx",
      procid: "812",
      msgid: "ID47",
      "structured_data.a@1.x": "1",
      "structured_data.a@1.y": 'q"]\\ \\z',
      "structured_data.b.x": "1,2",
    });
    expect(parse("<34>1 - - - - - -")).toEqual({ text: "", ...priority, version: "1" });
    expect(parse("<34>1 - - - - - - text")).toMatchObject({ text: "text" });
  });

  it.each([
    '[a x="1',
    '[a x="1"',
    "[",
    "[a x=1]",
    `[a ${Array.from({ length: 65 }, (_, index) => `k${index}="v"`).join(" ")}]`,
  ])("keeps structured data that it cannot read in the text: %s", (data) => {
    expect(parse(`<34>1 - h - - - ${data} text`)).toEqual({
      text: `${data} text`,
      ...priority,
      version: "1",
      hostname: "h",
    });
  });

  const at = { timestamp: local(2026, 9, 11, 22, 14, 15), [assumed]: "year and zone" };
  const cisco = { text: "%SYS-5-CONFIG_I: Configured", msgid: "SYS-5-CONFIG_I" };
  it.each([
    [
      "RFC 3164",
      "<34>Oct 11 22:14:15 web-1 su[7]: failed",
      { ...at, hostname: "web-1", appname: "su", procid: "7", text: "failed" },
    ],
    [
      "no host, as syslog(3) writes",
      "<34>Oct 11 22:14:15 su[7]: failed",
      { ...at, appname: "su", procid: "7", text: "failed" },
    ],
    [
      "no tag",
      "<34>Oct 11 22:14:15 web-1 it failed",
      { ...at, hostname: "web-1", text: "it failed" },
    ],
    [
      "an IPv6 address",
      "<34>Oct 11 22:14:15 fe80::1 su: failed",
      { ...at, hostname: "fe80::1", appname: "su", text: "failed" },
    ],
    ["no time", "<34>su[7]: failed", { appname: "su", procid: "7", text: "failed" }],
    ["nothing but a priority", "<34>it failed", { text: "it failed" }],
    [
      "rsyslog's time",
      "<34>2026-10-11T22:14:15.003Z web-1 su: failed",
      { timestamp: "2026-10-11T22:14:15.003Z", hostname: "web-1", appname: "su", text: "failed" },
    ],
    [
      "a time without a zone",
      "<34>2026-10-11T22:14:15 web-1 su: failed",
      {
        timestamp: at.timestamp,
        [assumed]: "zone",
        hostname: "web-1",
        appname: "su",
        text: "failed",
      },
    ],
    [
      "Cisco IOS",
      "<34>29: *Oct 11 22:14:15.25: %SYS-5-CONFIG_I: Configured",
      { ...at, timestamp: local(2026, 9, 11, 22, 14, 15, 250), ...cisco },
    ],
    [
      "Cisco IOS with its name and zone",
      "<34>29: r1: Oct 11 22:14:15 UTC: %SYS-5-CONFIG_I: Configured",
      { timestamp: "2026-10-11T22:14:15.000Z", [assumed]: "year", hostname: "r1", ...cisco },
    ],
    [
      "Cisco NX-OS",
      "<34>: 2025 Oct 11 22:14:15 UTC: %SYS-5-CONFIG_I: Configured",
      { timestamp: "2025-10-11T22:14:15.000Z", ...cisco },
    ],
    [
      "Cisco ASA",
      "<34>Oct 11 2025 22:14:15 fw : %SYS-5-CONFIG_I: Configured",
      { timestamp: local(2025, 9, 11, 22, 14, 15), [assumed]: "zone", hostname: "fw", ...cisco },
    ],
    ["Cisco ASA without a time", "<34>%SYS-5-CONFIG_I: Configured", cisco],
    [
      "a day that does not exist",
      "<34>Feb 31 22:14:15 web-1 su: failed",
      { text: "Feb 31 22:14:15 web-1 su: failed" },
    ],
    [
      "NUL in a name",
      "<34>1 - a\0b - - - - text",
      { version: "1", hostname: "a\ufffdb", text: "text" },
    ],
  ])("parses %s", (_, text, expected) => {
    expect(parse(text)).toEqual({ ...priority, ...expected });
  });

  it("parses a message with a time and no priority", () => {
    expect(parse("Oct 11 22:14:15 web-1 su: failed")).toEqual({
      ...at,
      hostname: "web-1",
      appname: "su",
      text: "failed",
    });
  });

  it.each([
    [
      "in January of December",
      "Dec 31 23:59:59",
      Date.UTC(2026, 0, 2),
      local(2025, 11, 31, 23, 59, 59),
    ],
    [
      "in December of January",
      "Jan  1 00:00:01",
      Date.UTC(2026, 11, 30),
      local(2027, 0, 1, 0, 0, 1),
    ],
    ["of the leap day", "Feb 29 12:00:00", Date.UTC(2025, 2, 1), local(2024, 1, 29, 12, 0, 0)],
  ])("takes the nearest year %s", (_, time, nowMs, expected) => {
    expect(parse(`<34>${time} h a: b`, nowMs)).toMatchObject({ timestamp: expected });
  });

  it.each(["", "plain text: of a program", "<192>1 - - - - - - x", "<>", "<34", '{"a":1}'])(
    "finds no header in %j",
    (text) => expect(parse(text)).toBeUndefined(),
  );

  it("reads only the format that the config names", () => {
    const message = "<34>1 - h - - - - text";
    expect(parseMessage(message, "rfc3164", now)?.text).toBe("1 - h - - - - text");
    expect(parseMessage("<34>Oct 11 22:14:15 h su: b", "rfc5424", now)).toBeUndefined();
  });

  it("I7: parses any text of 100 KB in under 10 ms, and never throws", async () => {
    const part = fc.constantFrom(
      "<34>",
      "1 ",
      "- ",
      "Oct 11 22:14:15 ",
      "a",
      ": ",
      "[",
      '="',
      '\\"',
      '"',
      "]",
      "9",
      "\0",
      "é",
    );
    await fc.assert(
      fc.asyncProperty(
        fc.array(part, { maxLength: 12 }),
        fc.array(part, { minLength: 1, maxLength: 3 }),
        async (head, body) => {
          const text = head.join("") + body.join("").repeat(100_000 / body.join("").length);
          const spent = await cpuMillisecondsOf(10, () => parseMessage(text, "auto", now));
          expect(spent).toBeLessThan(10);
        },
      ),
      { numRuns: 200 },
    );
  });
});
