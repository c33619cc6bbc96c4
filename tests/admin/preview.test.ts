import { expect, it } from "vitest";
import { describePreview } from "#admin/commands/preview.ts";

const config = {
  id: "01920000-0000-7000-8000-0000000000c2",
  name: null,
  config_hash: "b".repeat(64),
};
const same = { ...config, id: "01920000-0000-7000-8000-0000000000c1", name: "before" };
const other = { ...same, config_hash: "a".repeat(64) };
const preview = {
  config,
  filter: "",
  hosts: 50,
  will_change: 49,
  unchanged: 1,
  skipped: 0,
  from: [{ config: same, hosts: 49, diff: "", rules: [] }],
  refused: [],
  unparsable: [],
  in_other_rollouts: [],
};

it("say that only comments change, where collectors read the same", () => {
  expect(describePreview(preview).split("\n")).toEqual([
    "Config bbbbbbbbbbbb for 50 hosts: only comments or formatting change, nothing that collectors read",
    "  49 from bbbbbbbbbbbb (before): only comments or formatting differ",
    "  1 has it already",
  ]);
});

it("count only hosts whose collectors read something else, in the right number", () => {
  const from = [
    {
      config: other,
      hosts: 1,
      diff: "",
      rules: [
        { rule: "cards", change: "removed" as const },
        { rule: "env", change: "added" as const },
      ],
    },
    { config: same, hosts: 2, diff: "", rules: null },
  ];
  const busy = [{ rollout_id: config.id, hosts: 1 }];
  const shown = describePreview({
    ...preview,
    hosts: 5,
    will_change: 3,
    unchanged: 1,
    skipped: 1,
    from,
    in_other_rollouts: busy,
    refused: [{ identity_id: config.id, identity: "a", reason: "revoked" }],
  });
  expect(shown.split("\n")).toEqual([
    "Config bbbbbbbbbbbb for 5 hosts: 1 would change",
    "  1 from aaaaaaaaaaaa (before), rule cards removed, rule env added",
    "  2 from bbbbbbbbbbbb (before): only comments or formatting differ",
    "  1 has it already",
    "  1 is skipped: a (revoked)",
    `  1 is in the rollout ${config.id}`,
  ]);
  const none = describePreview({ ...preview, hosts: 1, will_change: 0, from: [] });
  expect(none.split("\n")[0]).toBe("Config bbbbbbbbbbbb for 1 host: nothing would change");
});
