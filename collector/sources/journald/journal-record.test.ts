import { expect, it } from "vitest";
import type { JournalEntry } from "./export-format.ts";
import { createJournalFilter, recordOf } from "./journal-record.ts";

const entryWith = (fields: Readonly<Record<string, string | Buffer>>, cut = 0): JournalEntry => ({
  fields: new Map(
    Object.entries(fields).map(([name, value]) => [name, Buffer.from(value as string)]),
  ),
  cut,
  isMalformed: false,
});
const observed = { source: "journald", observedAtMs: 5 };

it("names fields as the semantic conventions do, keeps those of programs, and leaves out others of journald", () => {
  const entry = entryWith({
    __CURSOR: "c",
    __REALTIME_TIMESTAMP: "1790000000123456",
    _BOOT_ID: "b",
    MESSAGE: "started",
    PRIORITY: "6",
    SYSLOG_FACILITY: "3",
    SYSLOG_IDENTIFIER: "nginx",
    _SYSTEMD_UNIT: "nginx.service",
    _PID: "17",
    _COMM: "nginx",
    _EXE: "/usr/sbin/nginx",
    _UID: "33",
    _HOSTNAME: "web-1",
    CODE_FUNC: "main",
    REQUEST_ID: "r\0x",
  });
  expect(recordOf(entry, observed)).toEqual({
    kind: "log_line",
    source: "journald",
    observedAtMs: 5,
    payload: Buffer.from("started"),
    attributes: {
      "journald.timestamp": "2026-09-21T14:13:20.123Z",
      "syslog.severity.code": "6",
      "syslog.facility.code": "3",
      "syslog.appname": "nginx",
      "systemd.unit": "nginx.service",
      "process.pid": "17",
      "process.executable.name": "nginx",
      "process.executable.path": "/usr/sbin/nginx",
      "user.id": "33",
      "host.name": "web-1",
      "code.function.name": "main",
      "journald.request_id": "r\ufffdx",
    },
  });
});

it("has the time at which the sender sent it, and none that no clock shows", () => {
  const timeOf = (fields: Record<string, string>) =>
    recordOf(entryWith(fields), observed).attributes["journald.timestamp"];
  const received = { __REALTIME_TIMESTAMP: "1790000000000000" };
  expect(timeOf({ ...received, _SOURCE_REALTIME_TIMESTAMP: "1780000000000000" })).toBe(
    "2026-05-28T20:26:40.000Z",
  );
  for (const nonsense of ["18446744073709551615", "-1", "soon"])
    expect(timeOf({ __REALTIME_TIMESTAMP: nonsense })).toBeUndefined();
});

it("keeps a message that is not text as it stands, says how many values were cut, and sends an entry without a message", () => {
  const bytes = Buffer.from([0xff, 0x00, 0x1b]);
  const { payload, attributes } = recordOf(entryWith({ MESSAGE: bytes }, 2), observed);
  expect(payload).toEqual(bytes);
  expect(attributes).toEqual({ "journald.cut": "2" });
  expect(recordOf(entryWith({ PRIORITY: "1" }), observed).payload).toHaveLength(0);
});

it.each([
  [{ units: ["nginx"] }, { _SYSTEMD_UNIT: "nginx.service" }, true],
  [{ units: ["nginx"] }, { _SYSTEMD_UNIT: "nginx2.service" }, false],
  [{ units: ["app@*"] }, { _SYSTEMD_UNIT: "app@eu.service" }, true],
  [{ units: ["app@*"] }, { _SYSTEMD_UNIT: "app.service" }, false],
  [{ units: ["a.b+c.service"] }, { _SYSTEMD_UNIT: "axb+c.service" }, false],
  [{ units: ["nginx"] }, { UNIT: "nginx.service", _PID: "1" }, true],
  [{ units: ["nginx"] }, { UNIT: "nginx.service", _PID: "42" }, false],
  [{ units: ["nginx"] }, { COREDUMP_UNIT: "nginx.service", _UID: "0" }, true],
  [{ units: ["nginx"] }, { OBJECT_SYSTEMD_UNIT: "nginx.service", _UID: "1000" }, false],
  [{ identifiers: ["sudo"] }, { SYSLOG_IDENTIFIER: "sudo" }, true],
  [{ identifiers: ["sudo"] }, { SYSLOG_IDENTIFIER: "su" }, false],
  [{ priority: "warning" as const }, { PRIORITY: "4" }, true],
  [{ priority: "warning" as const }, { PRIORITY: "5" }, false],
  [{ priority: "warning" as const }, { MESSAGE: "of no priority" }, true],
  [{ units: ["a"], identifiers: ["b"] }, { _SYSTEMD_UNIT: "a.service" }, false],
])("selects by %j of %j: %s", (selection, fields, isSelected) => {
  const selects = createJournalFilter({
    units: [],
    identifiers: [],
    priority: "debug",
    ...selection,
  });
  expect(selects(entryWith(fields))).toBe(isSelected);
});
