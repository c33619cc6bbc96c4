import { expect, it } from "vitest";
import { DatabaseUrlFault, splitDatabaseUrl } from "./database-url.ts";

it.each([
  ["postgres://u:p@a/db", ["postgres://u:p@a:5432/db"]],
  [
    "postgresql://u@a:1,b:2/db?target_session_attrs=read-write",
    ["postgres://u@a:1/db", "postgres://u@b:2/db"],
  ],
  [
    "postgres:///db?host=a,b&port=6432&sslmode=require",
    [
      "postgres://a:6432/db?sslmode=require&uselibpqcompat=true",
      "postgres://b:6432/db?sslmode=require&uselibpqcompat=true",
    ],
  ],
  [
    "postgres://a/db?sslmode=verify-full&sslrootcert=system",
    ["postgres://a:5432/db?sslmode=verify-full&uselibpqcompat=true"],
  ],
  ["postgres://u@[::1]:5/db", ["postgres://u@[::1]:5/db"]],
  ["postgres://u@%2Ftmp%2Fx:5432/db", ["postgres://u@%2Ftmp%2Fx:5432/db"]],
  ["postgres://u@/db?host=/tmp/x", ["postgres://u@%2Ftmp%2Fx:5432/db"]],
])("D9: reads %s", (url, servers) => {
  expect(splitDatabaseUrl(url).servers).toEqual(servers);
});

it.each([
  "host=a,b user=hunter2",
  "https://hunter2@a/db",
  "postgres://u:hunter2@a:1:2/db",
  "postgres://u:hunter2@a:99999/db",
  "postgres://u:hunter2@a,b/db?port=1,2,3",
  "postgres://u:hunter2@a,b/db?target_session_attrs=standby",
  "postgres://u:hunter2@a/db?sslmode=prefer",
  "postgres://u:hunter2@a/db?sslmode=verify-ca",
  "postgres://u:hunter2@a/db?sslrootcert=/ca.crt",
])("D9: refuses %s and quotes nothing of it", (url) => {
  const read = () => splitDatabaseUrl(url);
  expect(read).toThrow(DatabaseUrlFault);
  expect(read).not.toThrow(/hunter2/);
});
