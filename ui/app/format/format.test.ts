import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { formatBytes, formatCompact, formatCount, formatCountOf, formatShare } from "./amount.ts";
import { durationSecondsMax, parseDuration, writeDuration } from "./duration.ts";
import { shortHash } from "./hash.ts";
import { plainText } from "./plain-text.ts";
import { formatAgo, formatDay, formatMoment, formatSpan, formatUntil } from "./time.ts";

const now = Date.parse("2026-11-20T16:45:03.250Z");

describe("times", () => {
  it.each([
    [0, "0 s"],
    [59.999, "59 s"],
    [60, "1 min"],
    [3_599, "59 min"],
    [3_600, "1 h"],
    [12_000, "3 h 20 min"],
    [86_399, "23 h 59 min"],
    [86_400, "1 d"],
    [273_600, "3 d 4 h"],
    [863_999, "9 d 23 h"],
    [864_000, "10 d"],
    [86_400 * 1234.5, "1,234 d"],
    [-12, "12 s"],
    [Number.NaN, "unknown"],
    [Number.POSITIVE_INFINITY, "unknown"],
  ])("%d seconds span %s", (seconds, text) => expect(formatSpan(seconds)).toBe(text));

  it.each([
    ["2026-11-20T16:44:51.250Z", "12 s ago"],
    ["2026-11-17T12:45:03.000Z", "3 d 4 h ago"],
    ["2026-11-20T16:45:03.250Z", "0 s ago"],
    ["2026-11-20T16:45:08.250Z", "0 s ago"],
    ["2026-11-20T16:45:08.251Z", "5 s ahead"],
    ["2026-11-20T16:49:04.000Z", "4 min ahead"],
    ["not a time", "unknown"],
  ])("what happened at %s was %s", (at, text) => expect(formatAgo(at, now)).toBe(text));

  it.each([
    ["2026-11-29T16:45:03.250Z", "in 9 d"],
    ["2026-11-20T16:45:03.250Z", "in 0 s"],
    ["2026-11-20T13:45:03.250Z", "3 h ago"],
    ["", "unknown"],
  ])("what is due at %s is %s", (at, text) => expect(formatUntil(at, now)).toBe(text));

  it("writes absolute times in UTC", () => {
    expect(formatMoment("2026-11-20T16:45:03.250Z")).toBe("2026-11-20 16:45:03 UTC");
    expect(formatMoment("2026-11-20T23:30:00.000-02:00")).toBe("2026-11-21 01:30:00 UTC");
    expect(formatMoment("soon")).toBe("unknown");
    expect(formatDay("2026-11-20T23:59:59.999Z")).toBe("20 Nov");
    expect(formatDay("soon")).toBe("unknown");
  });
});

describe("amounts", () => {
  it.each([
    [0, "0"],
    [999, "999"],
    [1000, "1,000"],
    [9412, "9,412"],
    [1234567, "1,234,567"],
    [-1234, "-1,234"],
  ])("count %d is %s", (count, text) => expect(formatCount(count)).toBe(text));

  it.each([
    [9_999, "9,999"],
    [10_000, "10k"],
    [31_290, "31.2k"],
    [521_999, "521k"],
    [999_999, "999k"],
    [1_250_000, "1.2M"],
  ])("count %d is %s where there is little room", (count, text) => expect(formatCompact(count)).toBe(text));

  it("has the plural", () => {
    expect([0, 1, 2000].map((count) => formatCountOf(count, "host"))).toEqual(["0 hosts", "1 host", "2,000 hosts"]);
    expect(formatCountOf(2, "identity", "identities")).toBe("2 identities");
  });

  it.each([
    [0, "0 B"],
    [1023, "1,023 B"],
    [1024, "1 KiB"],
    [1536, "1.5 KiB"],
    [104_857_599, "99.9 MiB"],
    [104_857_600, "100 MiB"],
    [1024 ** 4 - 1, "1,023 GiB"],
    [1024 ** 6, "1,024 PiB"],
    [-1, "unknown"],
    [Number.NaN, "unknown"],
  ])("%d bytes are %s", (bytes, text) => expect(formatBytes(bytes)).toBe(text));

  it("calls full only what is full", () => {
    expect([formatShare(999, 1000), formatShare(1000, 1000), formatShare(1, 0)]).toEqual(["99 %", "100 %", "0 %"]);
  });

  it("spells out what would reorder or change a name unseen, and leaves the letters of every script", () => {
    expect(plainText("\u202eevil\u2066-1")).toBe("[U+202E]evil[U+2066]-1");
    expect(plainText("edge\u200b-\u00ad0\ufeff1\u{e0041}")).toBe("edge[U+200B]-[U+00AD]0[U+FEFF]1[U+E0041]");
    expect(plainText("مضيف-١ 東京 é👩‍💻")).toBe("مضيف-١ 東京 é👩‍💻");
  });

  it("shortens a hash to 6 characters", () => expect(shortHash("ab12cd34ef56")).toBe("ab12cd"));
});

describe("durations", () => {
  it.each([
    ["10m", 600],
    ["3d", 259_200],
    ["0s", 0],
    ["90s", 90],
    ["3650d", durationSecondsMax],
  ])("%s is %d seconds", (text, seconds) => expect(parseDuration(text)).toBe(seconds));

  it.each(["", "10", "m", "1.5h", "-1d", "1w", "1 d", "10M", "3651d", "9999999999s", "1h30m"])("%j is none", (text) =>
    expect(parseDuration(text)).toBeUndefined(),
  );

  it.each([
    [0, "0s"],
    [600, "10m"],
    [90, "90s"],
    [3_600, "1h"],
    [5_400, "90m"],
    [259_200, "3d"],
  ])("%d seconds are written %s", (seconds, text) => expect(writeDuration(seconds)).toBe(text));

  it("reads back what it writes", () =>
    fc.assert(
      fc.property(fc.integer({ min: 0, max: durationSecondsMax }), (seconds) => {
        expect(parseDuration(writeDuration(seconds))).toBe(seconds);
      }),
    ));
});
