import { expect, it, vi } from "vitest";
import { createHandshakeGate } from "./handshake-limits.ts";

const openGate = () => {
  const gate = createHandshakeGate({ atOnceMax: 2, slowMs: 100, waitingMax: 2 });
  const started: string[] = [];
  return { started, enter: (name: string) => gate.enter(() => void started.push(name)) };
};

it("starts as many as may run at once, then the others in their order as these end", () => {
  const { started, enter } = openGate();
  const [a, b, c] = ["a", "b", "c", "d"].map((name) => enter(name));
  expect(started).toEqual(["a", "b"]);
  b?.();
  b?.();
  expect(started).toEqual(["a", "b", "c"]);
  a?.();
  c?.();
  expect(started).toEqual(["a", "b", "c", "d"]);
});

it("refuses those beyond the ones that wait, and starts none that has left", () => {
  const { started, enter } = openGate();
  const [a, , c] = ["a", "b", "c", "d"].map((name) => enter(name));
  expect(enter("e")).toBeNull();
  c?.();
  a?.();
  expect(started).toEqual(["a", "b", "d"]);
});

it("gives the place of a slow handshake to the next, once", () => {
  vi.useFakeTimers();
  try {
    const { started, enter } = openGate();
    const [a] = ["a", "b", "c", "d"].map((name) => enter(name));
    vi.advanceTimersByTime(99);
    expect(started).toEqual(["a", "b"]);
    vi.advanceTimersByTime(1);
    expect(started).toEqual(["a", "b", "c", "d"]);
    a?.();
    enter("e");
    expect(started).toEqual(["a", "b", "c", "d"]);
  } finally {
    vi.useRealTimers();
  }
});
