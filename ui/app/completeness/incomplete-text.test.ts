import { expect, it } from "vitest";
import { incompleteText, restText } from "./incomplete-text.ts";

it("L7: says first of how many hosts nothing is known, from the counts of all states", () => {
  const hour = { hosts: { complete: 3, not_accounted: 312 } };
  expect(
    incompleteText({
      hosts: 315,
      hosts_listed: 0,
      hours: [{ hosts: { complete: 4, not_accounted: 311 } }, hour],
    }),
  ).toBe(
    "Up to 312 of 315 hosts have hours without a report, which core cannot judge. No host has incomplete hours.",
  );
  expect(
    incompleteText({ hosts: 4, hosts_listed: 2, hours: [{ hosts: { complete: 2, short: 2 } }] }),
  ).toBe("2 of 4 hosts have incomplete hours.");
});

it("says which hosts are not in the picture, of few and of many", () => {
  expect(restText({ hosts: 4, hosts_listed: 2 }, { shown: 2 })).toBe(
    "The other 2 hosts have no incomplete hours.",
  );
  expect(restText({ hosts: 10_000, hosts_listed: 312 }, { shown: 20 })).toBe(
    "These are the worst 20 of 312. 9,688 hosts have no incomplete hours.",
  );
  expect(restText({ hosts: 1, hosts_listed: 0 }, { shown: 0, what: "hours in this state" })).toBe(
    "1 host has no hours in this state.",
  );
});
