import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { createTestReceiptKey, signChain, type TestEntry } from "#tests/support/chat/receipts.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { programFile } from "#tests/support/program.ts";

const program = programFile("functions/main.ts");
const directory = newFolder();

const sessionId = "01920000-0000-7000-8000-0000000000c1";
const turn: TestEntry[] = [
  { kind: "user_message", payload: { message_id: "q", content: "How many hosts are offline?" } },
  { kind: "answer", payload: { message_id: "m", provider: "mock", model: "m", text: "3" } },
  { kind: "closing", payload: { message_id: "m", status: "complete" } },
];
const signer = await createTestReceiptKey("receipts-2026");
const file = await signChain(sessionId, turn, signer);

const written = (name: string, value: unknown) => {
  const path = join(directory, name);
  writeFileSync(path, typeof value === "string" ? value : JSON.stringify(value));
  return path;
};

/** Runs the command without any environment. */
const run = (args: string[], input = "") => {
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [program, "verify-receipts", ...args],
    {
      env: {},
      input,
      encoding: "utf8",
      timeout: 60_000,
    },
  );
  return { status, result: stdout === "" ? null : JSON.parse(stdout), stderr };
};

it("verifies a file offline, with its own keys or with given ones, and says which", () => {
  const path = written("receipts.json", file);
  const expected = {
    ok: true,
    checked: 3,
    turns: 1,
    length: 3,
    session_id: sessionId,
    last_created_at: file.items[2]?.created_at,
    ephemeral: false,
    fault: null,
  };
  expect(run([path])).toEqual({
    status: 0,
    result: { ...expected, keys: "from_file" },
    stderr: "keys from the receipts themselves: this proves only that one party signed all of it\n",
  });
  const keys = written("keys.json", { keys: [{ ...signer.key, svc_ephemeral: true }] });
  const given = { ...expected, keys: "given", ephemeral: true };
  expect(run(["-", "--keys", keys], JSON.stringify(file))).toEqual({
    status: 0,
    result: given,
    stderr: "",
  });
});

it("T5: names the receipt that was edited, and rejects a file of another key", async () => {
  const [, answer] = file.items;
  const edited = {
    ...file,
    items: file.items.with(1, { ...answer, payload: { ...answer?.payload, text: "4" } } as never),
  };
  expect(run([written("edited.json", edited)])).toMatchObject({
    status: 1,
    result: { ok: false, checked: 1, fault: { seq: 2, kind: "payload" } },
  });
  const impostor = await createTestReceiptKey("receipts-2026");
  const forged = written("forged.json", await signChain(sessionId, turn, impostor));
  const keys = written("keys.json", { keys: [signer.key] });
  expect(run([forged]).status).toBe(0);
  expect(run([forged, "--keys", keys])).toMatchObject({
    status: 1,
    result: { fault: { seq: 1, kind: "signature" } },
  });
});

it("T5: rejects keys that are a file of receipts, since whoever signed those could add their keys", async () => {
  const impostor = await createTestReceiptKey("receipts-2026");
  const forged = await signChain(sessionId, turn, impostor);
  const path = written("forged.json", forged);
  const copies = [
    path,
    written("copy.json", forged),
    written("stripped.json", { ...forged, format: "other" }),
  ];
  for (const keys of copies)
    expect([keys, run([path, "--keys", keys])]).toEqual([
      keys,
      {
        status: 65,
        result: null,
        stderr: expect.stringContaining("--keys: these are keys from the receipts"),
      },
    ]);
  expect(run(["-", "--keys", "-"], JSON.stringify(forged)).status).toBe(65);
});

it("T5: rejects a file that another reader of JSON would read differently", () => {
  const json = JSON.stringify(file);
  const changed = (from: string, to: string) => {
    expect(json).toContain(from);
    const path = join(directory, "changed.json");
    writeFileSync(path, json.replace(from, to));
    const { status, result } = run([path]);
    return [status, result?.fault ?? null];
  };
  expect(changed('"text":', '"text":"0 hosts","text":')).toEqual([65, null]);
  expect(changed('"text":', '"t\\u0065xt":"0 hosts","text":')).toEqual([65, null]);
  expect(changed('"items":', '"items":[],"items":')).toEqual([65, null]);
  for (const key of ["__proto__", "constructor", "other"])
    expect(changed('"text":', `"${key}":"0 hosts","text":`)).toEqual([
      1,
      { seq: 2, kind: "payload" },
    ]);
  expect(changed('"text":', '"n":1e400,"text":')).toEqual([1, { seq: 2, kind: "payload" }]);
  expect(changed('"text":"', '"text":"\\ud800')).toEqual([1, { seq: 2, kind: "payload" }]);
  expect(changed('"key_id":"', '"key_id":"\\ud800')).toMatchObject([
    1,
    { kind: expect.any(String) },
  ]);
  const deep = `"n":${"[".repeat(100_000)}${"]".repeat(100_000)},"text":`;
  expect(changed('"text":', deep)).toEqual([1, { seq: 2, kind: "payload" }]);
});

it("exits 2 for its usage, and 65 for what is not receipts or keys", () => {
  const path = written("receipts.json", file);
  for (const args of [[], [path, path], ["--kyes", path]]) {
    const { status, stderr } = run(args);
    expect([args, status, stderr.split("\n")[0]]).toEqual([
      args,
      2,
      "svc-server verify-receipts FILE|- [--keys FILE]",
    ]);
  }
  const others = {
    "": "",
    "{}": "{}",
    "no JSON": "no JSON",
    "another format": { ...file, format: "other" },
  };
  for (const [name, value] of Object.entries(others))
    expect([name, run([written("other.json", value)])]).toEqual([
      name,
      {
        status: 65,
        result: null,
        stderr:
          "this is not a file of receipts (svc.chat-receipts.v1), or an object in it repeats a key\n",
      },
    ]);
  expect(run([join(directory, "missing.json")]).status).toBe(65);
  expect(run([path, "--keys", written("keys.json", null)]).status).toBe(65);
  expect(run([path, "--keys", written("keys.json", [])]).stderr).toBe(
    "--keys: this is not a set of receipt keys\n",
  );
});
