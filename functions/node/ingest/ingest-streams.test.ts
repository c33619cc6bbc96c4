import { describe, expect, it } from "vitest";
import { createSilenceCheck, createTurns } from "./ingest-streams.ts";

describe("turns of sessions", () => {
  const setOf = (count: number) =>
    new Map(Array.from({ length: count }, (_, index) => [index, true]));

  it.each([0, 1, 7, 30, 100])(
    "divide %i items evenly over the parts of a pass, each item once",
    (count) => {
      const next = createTurns(setOf(count), 30);
      for (let pass = 0; pass < 2; pass++) {
        const parts = Array.from({ length: 30 }, next);
        expect(Math.max(...parts.map(({ length }) => length))).toBe(Math.ceil(count / 30));
        expect(parts.flat()).toEqual([...setOf(count).keys()]);
      }
    },
  );

  it("contain every item that stays while others come and go", () => {
    const items = setOf(60);
    const next = createTurns(items, 30);
    const parts = Array.from({ length: 30 }, (_, part) => {
      items.delete(part);
      items.set(100 + part, true);
      items.set(200 + part, true);
      return next();
    }).flat();
    expect(new Set(parts).size).toBe(parts.length);
    expect(parts).toEqual(
      expect.arrayContaining(Array.from({ length: 30 }, (_, index) => 30 + index)),
    );
  });
});

describe("the check of a session", () => {
  const start = () => {
    const events: string[] = [];
    const socket = { bytesRead: 100 };
    const ping = () => events.push("ping") > 0;
    const check = createSilenceCheck(
      { closed: false, destroyed: false, ping, destroy: () => events.push("destroy") },
      socket,
    );
    return { events, socket, check };
  };

  it("never pings a session in which something arrives between two checks", () => {
    const { events, socket, check } = start();
    for (let round = 0; round < 10; round++) {
      check();
      check();
      socket.bytesRead += 1;
    }
    expect(events).toEqual([]);
  });

  it("pings a silent session, again while it answers, and destroys it once it does not", () => {
    const { events, socket, check } = start();
    for (let round = 0; round < 3; round++) {
      for (let silent = 0; silent < 3; silent++) check();
      expect(events.splice(0)).toEqual(["ping"]);
      // The answer.
      socket.bytesRead += 17;
    }
    for (let silent = 0; silent < 4; silent++) check();
    expect(events).toEqual(["ping", "destroy"]);
  });
});
