import { expect, it } from "vitest";
import { isConfidentialUrl } from "./confidential-url.ts";

it.each([
  ["https://admin.example.test", true],
  ["https://edge.example.test:8443/directory/", true],
  ["http://127.0.0.1:8080", true],
  ["http://127.255.0.3", true],
  ["http://[::1]:8080", true],
  ["http://localhost:8080", true],
  ["http://admin.example.test", false],
  ["http://localhost.example.test", false],
  ["http://127.0.0.1.example.test", false],
  ["http://127.0.0.1@admin.example.test", false],
  ["https://user:password@admin.example.test", false],
  ["http://0x7f000002", true],
  ["ftp://127.0.0.1", false],
  ["admin.example.test", false],
  ["", false],
])("a secret may be sent to %s: %s", (url, confidential) => {
  expect(isConfidentialUrl(url)).toBe(confidential);
});
