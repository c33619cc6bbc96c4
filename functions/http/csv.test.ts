import { expect, it } from "vitest";
import { csvRecord } from "./csv.ts";

it("I4: neutralises text that a spreadsheet would read as a formula, and nothing else", () => {
  for (const start of ["=", "+", "-", "@", "＝", "＋", "－", "＠", "\t"])
    expect(csvRecord([`${start}1+1`])).toBe(`'${start}1+1\r\n`);
  expect(csvRecord(["\r=1", "\n=1", ";=1"])).toBe(`"'\r'=1","'\n'=1",;'=1\r\n`);
  expect(csvRecord(["a;+1", "a\n@1", "a; b", "a;1"])).toBe(`a;'+1,"a\n'@1",a; b,a;1\r\n`);
  expect(csvRecord([-5, 0, 1.5, null, "host-1", "a=b", " =1", "'quoted"])).toBe(
    "-5,0,1.5,,host-1,a=b, =1,'quoted\r\n",
  );
});

it("quotes commas, quotes and line breaks by RFC 4180", () => {
  expect(csvRecord(["a,b", 'say "x"', "two\nlines", "ünï"])).toBe(
    '"a,b","say ""x""","two\nlines",ünï\r\n',
  );
  expect(csvRecord(['=HYPERLINK("https://x",1)'])).toBe(`"'=HYPERLINK(""https://x"",1)"\r\n`);
});
