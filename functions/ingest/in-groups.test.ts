import { expect, it } from "vitest";
import { inTurn } from "./in-groups.ts";

it("runs so many calls at once, the others in their order, and a failure rejects its own call alone", async () => {
  const begun: string[] = [];
  const ends = new Map<string, PromiseWithResolvers<string>>();
  const call = inTurn(
    (name: string) => {
      begun.push(name);
      const end = Promise.withResolvers<string>();
      ends.set(name, end);
      return end.promise;
    },
    (name) => name,
  );
  const results = ["a", "b", "c", "d"].map((name) =>
    call(name).catch((error: Error) => error.message),
  );
  expect(begun).toEqual(["a", "b"]);
  ends.get("a")?.reject(new Error("refused"));
  await expect.poll(() => begun).toEqual(["a", "b", "c"]);
  ends.get("c")?.resolve("third");
  await expect.poll(() => begun).toEqual(["a", "b", "c", "d"]);
  ends.get("b")?.resolve("second");
  ends.get("d")?.resolve("fourth");
  expect(await Promise.all(results)).toEqual(["refused", "second", "third", "fourth"]);
});

it("rejects calls beyond those that may wait with `overloaded`", async () => {
  const call = inTurn(
    () => new Promise<void>(() => undefined),
    (item: number) => String(item),
  );
  for (let item = 0; item < 1_002; item++) void call(item).catch(() => undefined);
  await expect(call(1_002)).rejects.toMatchObject({ code: "overloaded" });
});
