import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, expect, it } from "vitest";
import { createTestToken } from "../support/collector.ts";
import { failsWith, startTestAdmin } from "./support/admin.ts";

const { web, home, signIn, adminAt } = await startTestAdmin();
const { enroll } = await createTestToken(web.core);
await enroll("web-17");
const admin = adminAt();
beforeEach(() => signIn());

const file = (name: string, content: string | Buffer) => {
  const path = join(home, name);
  writeFileSync(path, content);
  return path;
};
const hosts = file("hosts.csv", "name,owner,label.env\nweb-17,shop,prod\nweb-18,shop,\n");

it("compares a file, puts it through web, and lists hosts by status", async () => {
  const compared = await admin.run`inventory diff ${hosts}`;
  expect(compared).toMatchObject({
    exitCode: 1,
    err: "",
    out: expect.stringMatching(/^added +web-17$/m),
  });
  const put = await admin.json`inventory put ${hosts}`;
  expect(put).toMatchObject({ hosts: 2, added: 2, changed: 0, removed: 0 });
  await admin.must`inventory diff ${hosts}`;
  const missing = await admin.run`inventory list --status missing -o csv`;
  expect(missing.out).toBe("name,status,owner,labels,identity\r\nweb-18,missing,shop,,\r\n");
  expect((await admin.run`inventory list`).out).toMatch(
    /^web-17 +expected +shop +env=prod +https:/m,
  );
});

it("asks before it expects fewer hosts, and refuses a file without one", async () => {
  const fewer = file("fewer.json", JSON.stringify({ hosts: [{ name: "web-17" }] }));
  const asked = await admin.run`inventory put ${fewer}`;
  expect(asked).toEqual(failsWith(2, "0 added, 1 changed, 1 removed"));
  await admin.must`inventory put ${fewer} --yes`;
  const empty = file("empty.csv", "name,owner\n");
  expect(await admin.run`inventory put ${empty} --yes`).toMatchObject({
    out: "",
    err: expect.stringContaining("inventory_empty"),
  });
  await admin.must`inventory put ${empty} --allow-empty --yes`;
});

it("names the line of a fault, and refuses one that has changed", async () => {
  const twice = file("twice.csv", "name\nweb-17\nweb-17\n");
  const { err } = await admin.run`inventory put ${twice}`;
  expect(err).toContain("line 3: name is the name of line 2 too");
  // As a spreadsheet writes it by default: "Müller" in Windows-1252.
  const latin = file("latin.csv", Buffer.from("name,owner\nweb-17,M\u00fcller\n", "latin1"));
  expect(await admin.run`inventory put ${latin}`).toEqual(
    failsWith(2, "latin.csv is not UTF-8 text"),
  );
  expect(await admin.run`inventory put ${hosts} --if-match "other"`).toMatchObject({
    err: expect.stringContaining("inventory_changed"),
  });
});

it("puts a file of 8 MiB through web", async () => {
  const lines = Array.from(
    { length: 24_700 },
    (_, index) =>
      `host-${index}.${"x".repeat(60)}.example.com,${"team ".repeat(48)}of ${index},prod`,
  );
  const text = `name,owner,label.env\n${lines.join("\n")}\n`;
  expect(text.length).toBeGreaterThan(7.9 * 1024 * 1024);
  const large = file("large.csv", text);
  const { exitCode, out, err } = await admin.run`inventory put ${large} --yes -o json`;
  expect({ exitCode, err }).toEqual({ exitCode: 0, err: "" });
  expect(JSON.parse(out)).toMatchObject({ hosts: 24_700 });
});
