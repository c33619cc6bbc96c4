import { expect, it } from "vitest";
import {
  configName,
  figurePath,
  hostsLeft,
  openFigure,
  progressSentence,
} from "./progress-view.ts";

const none = {
  desired: 0,
  running: 0,
  failed: 0,
  drifted: 0,
  silent: 0,
  silent_running: 0,
  undesired: 0,
  finished_at: null,
};
const hash = "f8b4c0".padEnd(64, "0");

it("says whether it finished, when, or how many hosts are left or silent", () => {
  expect(progressSentence(none)).toBe("Assigned to no host.");
  const part = {
    ...none,
    desired: 1200,
    running: 1000,
    silent: 150,
    silent_running: 100,
    drifted: 50,
  };
  expect([hostsLeft(part), progressSentence(part)]).toEqual([
    100,
    "100 of 1,200 hosts left: not finished.",
  ]);
  const all = {
    ...none,
    desired: 2,
    running: 1,
    silent: 1,
    silent_running: 1,
    finished_at: "2026-11-20T10:00:00.000Z",
  };
  const at = "2026-11-20 10:00:00 UTC";
  expect(progressSentence(all)).toBe(`1 of 2 hosts has gone silent since it finished at ${at}.`);
  expect([part, all, none].map(openFigure)).toEqual(["left", "silent_running", false]);
  const awake = { ...all, running: 2, silent: 0, silent_running: 0 };
  expect(progressSentence(awake)).toBe(`Finished at ${at}: all 2 hosts run it.`);
  expect(progressSentence({ ...awake, desired: 1, running: 1 })).toMatch(/: the host runs it\.$/);
});

it("links each figure to its hosts, and names a config without a name by its hash", () => {
  expect(figurePath("drifted", hash)).toBe(`/fleet?desired_config=${hash}&progress=drifted`);
  expect(figurePath("desired", hash)).not.toContain("revoked");
  expect(configName({ name: null, config_hash: hash })).toBe("f8b4c0000000");
});
