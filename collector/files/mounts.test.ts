import { beforeEach, expect, it } from "vitest";
import { createTestClock, type TestClock } from "#tests/fakes/clock.ts";
import { createMounts, HungMountError, type Mounts } from "./mounts.ts";

let clock: TestClock;
let mounts: Mounts;

beforeEach(() => {
  clock = createTestClock();
  const table = "1 0 0:1 / / rw - ext4 root\n2 1 0:2 / /mnt/a\\040b rw shared:1 - nfs4 server\n";
  mounts = createMounts(clock, () => table);
});

const hang = () => {
  const { promise, resolve } = Promise.withResolvers<string>();
  return { answer: resolve, call: () => promise };
};

it("finds the mount of a path, by the longest mountpoint", () => {
  const found = ["/mnt/a b/c", "/mnt/a b", "/mnt/a bc", "/"].map(
    (path) => mounts.of(path).mountpoint,
  );
  expect(found).toEqual(["/mnt/a b", "/mnt/a b", "/", "/"]);
});

it("W3: rejects calls of a mount that does not answer, and no others", async () => {
  const hung = hang();
  const late: string[] = [];
  const nfs = mounts.of("/mnt/a b");
  const first = nfs.call(hung.call, (result) => late.push(result));
  const second = nfs.call(async () => "waits");
  const rejected = Promise.allSettled([first, second]);
  await clock.advance(2_500);
  const refusal = { status: "rejected", reason: expect.any(HungMountError) };
  expect(await rejected).toEqual([refusal, refusal]);
  await expect(nfs.call(async () => "at once")).rejects.toThrow("/mnt/a b has not answered since");
  expect(await mounts.of("/").call(async () => "answers")).toBe("answers");
  expect(mounts.hung()).toEqual([]);
  await clock.advance(8_000);
  expect(mounts.hung()).toMatchObject([{ mountpoint: "/mnt/a b" }]);
  hung.answer("late");
  await clock.advance(0);
  expect([late, mounts.hung()]).toEqual([["late"], []]);
  expect(await nfs.call(async () => "again")).toBe("again");
});

it("releases what is open on a mount that does not answer once it does, and waits for it no longer", async () => {
  const hung = hang();
  const nfs = mounts.of("/mnt/a b");
  const closed: string[] = [];
  const close = (name: string) => nfs.release(async () => void closed.push(name));
  const refused = nfs.call(hung.call, () => void close("late")).catch(() => undefined);
  const waiting = close("waiting");
  await clock.advance(2_500);
  await Promise.all([refused, waiting, close("afterwards")]);
  expect(closed).toEqual([]);
  hung.answer("late");
  await clock.advance(0);
  expect(closed).toEqual(["waiting", "afterwards", "late"]);
});
