import fc from "fast-check";
import { expect, it } from "vitest";
import { localPath } from "./local-path.ts";

const origin = "https://fleet.example";

it("A6: is accepted as a path of this origin, with query and fragment", () => {
  const paths = [
    "/",
    "/fleet",
    "/fleet?state=stale&q=a%20b#x",
    "/loginless",
    "/apiary",
    "/fleet?next=//evil.example",
  ];
  for (const path of paths) expect(localPath(path)).toBe(path);
});

it("A6: becomes / for another origin in any form, the API, the sign-in page, and overlong text", () => {
  const refused = [
    undefined,
    "",
    "fleet",
    "https://evil.example",
    "javascript:alert(1)",
    "//evil.example",
    "/\\evil.example",
    "\\\\evil.example",
    "/\t/evil.example",
    "/\n/evil.example",
    "\t//evil.example",
    "/.//evil.example",
    "/fleet/..//evil.example",
    "/%2e//evil.example",
    "/./\\evil.example",
    "//",
    "///evil.example",
    "/api/auth/login",
    "/api",
    "/login",
    "/login?return_to=/fleet",
    "/fleet/../login",
    "/%61pi/auth/login",
    "/%6Cogin",
    `/${"x".repeat(2048)}`,
  ];
  for (const address of refused) expect(localPath(address), address).toBe("/");
});

it("A6: never leads a browser to another origin", () => {
  const pieces = fc.constantFrom(
    "/",
    "\\",
    ".",
    "%2e",
    "%2f",
    "\t",
    "\n",
    "\r",
    "@",
    ":",
    "?",
    "#",
    "evil.example",
    " ",
  );
  const addresses = fc.oneof(
    fc.array(pieces, { maxLength: 8 }).map((parts) => parts.join("")),
    fc.string(),
  );
  fc.assert(
    fc.property(addresses, (address) => {
      const path = localPath(address);
      expect(new URL(path, origin).origin).toBe(origin);
      expect(localPath(path)).toBe(path);
    }),
    { numRuns: 2000 },
  );
});
