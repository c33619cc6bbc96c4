import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { createTestLog } from "#tests/fakes/log.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { loadFiles } from "./reload-files.ts";

const load = async () => {
  const path = join(newFolder(), "file");
  const log = createTestLog();
  const state = { text: "old", isSuspect: false, fault: undefined as string | undefined };
  const put = (text: string) => {
    writeFileSync(path, text);
    state.text = text;
  };
  put("old");
  const files = await loadFiles({
    name: "files",
    paths: [path],
    isSuspect: () => state.isSuspect,
    load: async () => {
      if (state.fault !== undefined) throw new Error(state.fault);
      return state.text;
    },
    log,
  });
  return { files, put, state, logged: () => log.lines.map(({ message }) => message) };
};

it("does not log that files have changed when only their value is suspect", async () => {
  const { files, put, state, logged } = await load();
  Object.assign(state, { isSuspect: true, fault: "refused" });
  await files.check();
  await files.check();
  expect(logged()).toEqual(["the unchanged value is no longer accepted"]);
  Object.assign(state, { isSuspect: false, fault: undefined });
  await files.check();
  await files.check();
  expect(logged().slice(1)).toEqual(["the unchanged value is accepted again"]);

  state.fault = "incomplete";
  put("new");
  await files.check();
  state.fault = undefined;
  await files.check();
  expect(logged().slice(2)).toEqual([
    "files have changed and cannot be used; the old ones are kept",
    "files have changed and are in use",
  ]);
});

it("keeps the old value while a subscriber rejects the new one", async () => {
  const { files, put } = await load();
  let applied = "old";
  let fault: Error | undefined = new Error("not now");
  files.subscribe((value) => {
    if (fault !== undefined) throw fault;
    applied = value;
  });
  put("newer");
  await files.check();
  expect([files.current(), applied, files.fault()]).toEqual(["old", "old", "not now"]);
  fault = undefined;
  await files.check();
  expect([files.current(), applied, files.fault()]).toEqual(["newer", "newer", undefined]);
});
