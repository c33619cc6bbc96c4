import { expect, it } from "vitest";
import { textPieces } from "./answer-parts.ts";

const linksOf = (text: string) =>
  textPieces(text).flatMap(({ href }) => (href === undefined ? [] : [href]));

it.each<[string, string[]]>([
  ["See /fleet?state=stale.", ["/fleet?state=stale"]],
  ["/fleet", ["/fleet"]],
  [
    "stale: 3 (/fleet?state=stale&q=dc-3), then /fleet?drift=drifted!",
    ["/fleet?state=stale&q=dc-3", "/fleet?drift=drifted"],
  ],
  ["[here](/fleet?state=stale)", ["/fleet?state=stale"]],
  ["`/fleet?q=a%20b`", ["/fleet?q=a%20b"]],
  [
    "by alice: /hosts/01920000-0000-7000-8000-0000000000ff, /audit?action=identity.revoke.",
    ["/hosts/01920000-0000-7000-8000-0000000000ff", "/changes/audit?action=identity.revoke"],
  ],
  [
    "(/configs/01920000-0000-7000-8000-0000000000ff) of /configs or /enrollment",
    [
      "/changes/configs/01920000-0000-7000-8000-0000000000ff",
      "/changes/configs",
      "/access/enrollment",
    ],
  ],
  [
    "/changes/configs/abcdef00-0000-7000-8000-0000000000ff, /hosts/abcdef00-0000-7000-8000-0000000000ff",
    [
      "/changes/configs/abcdef00-0000-7000-8000-0000000000ff",
      "/hosts/abcdef00-0000-7000-8000-0000000000ff",
    ],
  ],
])("links %j to pages of ours", (text, links) => expect(linksOf(text)).toEqual(links));

it.each([
  "https://evil.example/fleet",
  "//evil.example/fleet",
  "//fleet",
  "javascript:/fleet",
  "/fleets",
  "/hosts",
  "/hosts/01920000-0000-7000-8000-0000000000ff0",
  "/hosts/01920000-0000-7000-8000-0000000000ff/x",
  "/fleet/01920000-0000-7000-8000-0000000000ff",
  "/audit/../api/auth/login",
  "/fleet/../api/auth/login",
  "/fleet-health",
  "/data",
  "/changes/audit/x",
  "/api/auth/logout",
  "/",
  "x/fleet",
  "/Fleet",
])("leaves %j text", (text) => expect(linksOf(text)).toEqual([]));

it("keeps every character", () => {
  const text = " a\n- /fleet?x=<b>, (/fleet)\n\t/fleet";
  expect(
    textPieces(text)
      .map((piece) => piece.text)
      .join(""),
  ).toBe(text);
});

it("takes a text of slashes in linear time", () => {
  const startedAt = performance.now();
  textPieces("/fleet?".repeat(20_000));
  textPieces(`/fleet?${".".repeat(100_000)}a`);
  expect(performance.now() - startedAt).toBeLessThan(2000);
});
