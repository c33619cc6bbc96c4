import { describe, expect, it } from "vitest";
import {
  formatAgo,
  formatBytes,
  formatCount,
  formatCountOf,
  formatDay,
  formatDuration,
  formatPart,
  formatShare,
  formatShortTimestamp,
  formatTimestamp,
  formatTiny,
  formatUntil,
  plainName,
  plainText,
  shortened,
} from "./format.ts";

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
  ])("writes %d seconds as %s", (seconds, text) => expect(formatDuration(seconds)).toBe(text));

  it.each([
    ["2026-11-20T16:44:51.250Z", "12 s ago"],
    ["2026-11-17T12:45:03.000Z", "3 d 4 h ago"],
    ["2026-11-20T16:45:03.250Z", "0 s ago"],
    ["2026-11-20T16:45:08.250Z", "0 s ago"],
    ["2026-11-20T16:45:08.251Z", "5 s ahead"],
    ["2026-11-20T16:49:04.000Z", "4 min ahead"],
    ["not a time", "unknown"],
  ])("writes the age of %s as %s", (at, text) => expect(formatAgo(at, now)).toBe(text));

  it.each([
    ["2026-11-29T16:45:03.250Z", "in 9 d"],
    ["2026-11-20T16:45:03.250Z", "in 0 s"],
    ["2026-11-20T13:45:03.250Z", "3 h ago"],
    ["", "unknown"],
  ])("writes the due time %s as %s", (at, text) => expect(formatUntil(at, now)).toBe(text));

  it("writes absolute times in local time with their offset", () => {
    const at = "2026-11-20T16:45:03.250Z";
    const minutes = -new Date(at).getTimezoneOffset();
    const shifted = new Date(Date.parse(at) + minutes * 60_000).toISOString();
    expect(formatTimestamp(at, "local").slice(0, 19)).toBe(shifted.slice(0, 19).replace("T", " "));
    expect(Date.parse(formatTimestamp(at, "local").replace(" ", "T").replace(" ", ""))).toBe(
      Date.parse(at) - 250,
    );
    expect(formatTimestamp("soon", "local")).toBe("unknown");
  });

  it("writes the date only of another day", () => {
    expect(formatShortTimestamp("2026-11-20T00:00:00Z", now, "utc")).toBe("00:00:00");
    expect(formatShortTimestamp("2026-11-19T23:59:59Z", now, "utc")).toBe("2026-11-19 23:59");
  });

  it("writes absolute times in UTC", () => {
    expect(formatTimestamp("2026-11-20T16:45:03.250Z")).toBe("2026-11-20 16:45:03 UTC");
    expect(formatTimestamp("2026-11-20T23:30:00.000-02:00")).toBe("2026-11-21 01:30:00 UTC");
    expect(formatTimestamp("soon")).toBe("unknown");
    expect(formatDay("2026-11-20T23:59:59.999Z")).toBe("20 Nov");
    expect(formatDay("2026-12-01T00:00:00Z")).toBe("1 Dec");
    expect(formatDay("soon")).toBe("unknown");
  });
});

describe("amounts", () => {
  it.each([
    [999, "999"],
    [9499, "9.4k"],
    [31_999, "31k"],
    [1_000_000, "1M"],
    [Number.NaN, "unknown"],
  ])("shortens the count %d to four characters, %s", (count, text) =>
    expect(formatTiny(count)).toBe(text),
  );

  it.each([
    [0, "0"],
    [999, "999"],
    [1000, "1,000"],
    [9412, "9,412"],
    [1234567, "1,234,567"],
    [-1234, "-1,234"],
  ])("writes the count %d as %s", (count, text) => expect(formatCount(count)).toBe(text));

  it("writes the plural", () => {
    expect([0, 1, 2000].map((count) => formatCountOf(count, "host"))).toEqual([
      "0 hosts",
      "1 host",
      "2,000 hosts",
    ]);
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
  ])("writes %d bytes as %s", (bytes, text) => expect(formatBytes(bytes)).toBe(text));

  it("writes 100 % only for a full share", () => {
    expect([0, 1, 4, 96, 123].map((part) => formatPart(part, 1000))).toEqual([
      "0 %",
      "0.1 %",
      "0.4 %",
      "9.6 %",
      "12 %",
    ]);
    expect(formatPart(1, 10_000)).toBe("under 0.1 %");
    expect([formatShare(999, 1000), formatShare(1000, 1000), formatShare(1, 0)]).toEqual([
      "99 %",
      "100 %",
      "0 %",
    ]);
  });

  it("spells out characters that reorder or change a name invisibly, and keeps the letters of every script", () => {
    expect(plainText("\u202eevil\u2066-1")).toBe("[U+202E]evil[U+2066]-1");
    expect(plainText("edge\u200b-\u00ad0\ufeff1\u{e0041}")).toBe(
      "edge[U+200B]-[U+00AD]0[U+FEFF]1[U+E0041]",
    );
    expect(plainText("مضيف-١ 東京 é👩‍💻")).toBe("مضيف-١ 東京 é👩‍💻");
  });

  it("spells out the spaces of a name that a page would not show", () => {
    expect(plainName(" web-1 ")).toBe("[U+0020]web-1[U+0020]");
    expect(plainName("rack 4  left\u00a0\u3000")).toBe("rack 4 [U+0020]left[U+00A0][U+3000]");
    expect(plainName("rack 4")).toBe("rack 4");
  });

  it("shortens a text in its middle", () => {
    expect(shortened("0123456789abcdef")).toBe("0123456789abcdef");
    expect(shortened("0123456789abcdef0")).toBe("0123456…abcdef0");
  });
});
