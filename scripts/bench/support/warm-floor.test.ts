import { expect, it } from "vitest";
import { warmFloor } from "./warm-floor.ts";

const floorOf = async (...rates: number[]) => {
  const left = [...rates];
  const again = await warmFloor(async () => ({ rate: left.shift() ?? Number.NaN }));
  return { ...(await again()), left: left.length };
};

it("is measured until two in a row agree, and once after the figure", async () => {
  expect(await floorOf(113, 150, 170, 174, 171, 9)).toMatchObject({
    agreed: true,
    rates: [113, 150, 170, 174, 171],
    left: 1,
  });
});

it("is the highest of the warm ones, not a mean with a cold one", async () => {
  expect(await floorOf(100, 200, 196, 190)).toMatchObject({ rate: 200, spread: 0.05 });
});

it("says when no two agree", async () => {
  expect(await floorOf(100, 200, 100, 200, 100, 200, 100, 200, 100, 200, 150)).toMatchObject({
    agreed: false,
    left: 0,
  });
});
