import { expect, it } from "vitest";
import { createTestLog } from "#tests/fakes/log.ts";
import { createRoleAdmitter } from "./admit-chat-roles.ts";

it("warns of the same left-out roles once", async () => {
  const log = createTestLog();
  const answers = [[], ["backup"], ["backup"], ["backup", "svc_web"], [], ["backup"]];
  const admitRoles = createRoleAdmitter({ log }, async () => answers.shift() ?? []);
  while (answers.length > 0) await admitRoles();
  expect(log.lines.map(({ fields }) => fields)).toEqual([
    { roles: "backup" },
    { roles: "backup, svc_web" },
    { roles: "backup" },
  ]);
});
