import { expect, it } from "vitest";
import { incompleteText } from "./incomplete-text.ts";

it("L7: says first of how many hosts nothing is known, from the counts of all states", () => {
  const hour = { hosts: { complete: 3, not_accounted: 312 } };
  expect(
    incompleteText({
      hosts: 315,
      hosts_listed: 0,
      hours: [{ hosts: { complete: 4, not_accounted: 311 } }, hour],
    }),
  ).toBe("315 hosts: up to 312 not accounted for in an hour; none with an incomplete hour");
  expect(
    incompleteText({ hosts: 4, hosts_listed: 2, hours: [{ hosts: { complete: 2, short: 2 } }] }),
  ).toBe("4 hosts: 2 with an incomplete hour");
});
