import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import { readRange, readTime, writeQueryTime, writeRange } from "./times.ts";

const zone = process.env.TZ;
afterAll(() => {
  if (zone === undefined) delete process.env.TZ;
  else process.env.TZ = zone;
});

const utc = (...fields: [number, number, number, number?, number?, number?]) =>
  new Date(Date.UTC(...fields)).toISOString().replace(".000Z", "Z");
const now = new Date("2026-11-18T10:30:00Z");

const times = fc
  .date({ min: new Date("2000-01-01"), max: new Date("2100-01-01"), noInvalidDate: true })
  .map((at) => `${at.toISOString().slice(0, 19)}Z`);

describe.each(["UTC", "America/St_Johns", "Pacific/Chatham"])(
  "times written in the zone %s",
  (name) => {
    const inZone = <Result>(use: () => Result) => {
      process.env.TZ = name;
      return use();
    };

    it("are UTC", () =>
      inZone(() => {
        const read = (text: string) => readTime(text, now);
        expect(read("10:00")).toBe(utc(2026, 10, 18, 10));
        expect(read("9:05:07")).toBe(utc(2026, 10, 18, 9, 5, 7));
        expect(read("10:31")).toBe(utc(2026, 10, 17, 10, 31));
        expect(read("today")).toBe(utc(2026, 10, 18));
        expect(read("2026-02-28T23:59")).toBe(utc(2026, 1, 28, 23, 59));
        expect(read("90m")).toBe(utc(2026, 10, 18, 9));
        expect(read("2026-11-18T10:00:00Z")).toBe("2026-11-18T10:00:00Z");
        for (const text of [
          "24:00",
          "10:60",
          "2026-02-29",
          "2026-13-01",
          "10",
          "",
          "soon",
          "2026-11-18T",
          "2026-11-31T10:00:00Z",
        ])
          expect(read(text), text).toBeUndefined();
      }));

    it("make ranges of whole days, the last one included", () =>
      inZone(() => {
        const read = (text: string) => readRange(text, now);
        expect(read("2026-11-28")).toBe(`${utc(2026, 10, 28)}..${utc(2026, 10, 29)}`);
        expect(read("2026-11-28..2026-11-30")).toBe(`${utc(2026, 10, 28)}..${utc(2026, 11, 1)}`);
        expect(read("2026-11-28..2026-11-30T06:00")).toBe(
          `${utc(2026, 10, 28)}..${utc(2026, 10, 30, 6)}`,
        );
        expect(read("today")).toBe(`${utc(2026, 10, 18)}..${utc(2026, 10, 19)}`);
        expect(read("tomorrow")).toBe(`${utc(2026, 10, 19)}..${utc(2026, 10, 20)}`);
        for (const text of [
          "",
          "..",
          "2026-11-30..2026-11-28",
          "2026-11-28..",
          "a..b",
          "2026-11-28..2026-11-29..2026-11-30",
        ])
          expect(read(text), text).toBeUndefined();
      }));

    it("know the weekend on each day of the week: this one until Sunday is over", () =>
      inZone(() => {
        const weekends = [16, 17, 18, 19, 20, 21, 22, 23].map((day) =>
          readRange("weekend", new Date(Date.UTC(2026, 10, day, 23, 59))),
        );
        const this_ = `${utc(2026, 10, 21)}..${utc(2026, 10, 23)}`;
        const next = `${utc(2026, 10, 28)}..${utc(2026, 10, 30)}`;
        expect(weekends).toEqual([...Array(7).fill(this_), next]);
      }));

    it("are read back as they are written", () =>
      inZone(() =>
        fc.assert(
          fc.property(times, times, times, (time, other, written) => {
            const now = new Date(written);
            expect(readTime(writeQueryTime(time, now), now)).toBe(time);
            fc.pre(time !== other);
            const range = [time, other].toSorted().join("..");
            expect(readRange(writeRange(range, now), now)).toBe(range);
          }),
        ),
      ));

    it("are written as short as that allows", () =>
      inZone(() => {
        expect(writeQueryTime(utc(2026, 10, 18, 10), now)).toBe("10:00");
        expect(writeQueryTime(utc(2026, 10, 17, 11), now)).toBe("11:00");
        expect(writeQueryTime(utc(2026, 10, 16, 0), now)).toBe("2026-11-16");
        expect(writeQueryTime(utc(2026, 10, 16, 11), now)).toBe("2026-11-16T11:00");
        expect(writeRange(`${utc(2026, 10, 28)}..${utc(2026, 10, 30)}`, now)).toBe(
          "2026-11-28..2026-11-29",
        );
        expect(writeRange(`${utc(2026, 2, 29)}..${utc(2026, 2, 30)}`, now)).toBe("2026-03-29");
      }));
  },
);
