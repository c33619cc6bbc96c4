import { describe, expect, it } from "vitest";
import { createMemoryTail } from "#tests/collector/support/memory-tail.ts";
import type { MultilineConfig } from "./multiline.ts";

const traces: Readonly<Record<"java" | "python" | "go" | "dotnet", readonly string[]>> = {
  java: [
    `Exception in thread "main" java.lang.IllegalStateException: A book has a null property
	at com.example.myproject.Author.getBookIds(Author.java:38)
	at com.example.myproject.Bootstrap.main(Bootstrap.java:14)
Caused by: java.lang.NullPointerException
	at com.example.myproject.Book.getId(Book.java:22)
	at com.example.myproject.Author.getBookIds(Author.java:35)
	... 1 more`,
    `java.lang.Exception: Main block
	at Foo3.main(Foo3.java:7)
	Suppressed: Resource$CloseFailException: Resource ID = 2
		at Resource.close(Resource.java:26)
		at Foo3.main(Foo3.java:5)
	Suppressed: Resource$CloseFailException: Resource ID = 1
		at Resource.close(Resource.java:26)
		... 1 more`,
  ],
  python: [
    `Traceback (most recent call last):
  File "/srv/app/shop.py", line 12, in order
    return prices[item]
           ~~~~~~^^^^^^
KeyError: 'cup'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/srv/app/shop.py", line 21, in <module>
    main()
    ~~~~^^
  File "/srv/app/shop.py", line 18, in main
    raise OrderError("no price") from None
shop.OrderError: no price`,
    `  + Exception Group Traceback (most recent call last):
  |   File "/srv/app/jobs.py", line 4, in <module>
  |     raise ExceptionGroup("jobs", [ValueError(1), TypeError(2)])
  | ExceptionGroup: jobs (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | ValueError: 1
    +---------------- 2 ----------------
    | TypeError: 2
    +------------------------------------`,
  ],
  go: [
    `panic: runtime error: invalid memory address or nil pointer dereference
[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x48f1c2]

goroutine 1 [running]:
main.(*Server).handle(0x0, {0x4b7a98, 0x3})
	/srv/app/server.go:12 +0x22
main.main()
	/srv/app/main.go:8 +0x1d

goroutine 18 [select]:
main.watch.func1()
	/srv/app/watch.go:31 +0x85
created by main.watch in goroutine 1
	/srv/app/watch.go:28 +0x76
exit status 2`,
    `2026/11/22 03:12:04 http: panic serving 127.0.0.1:51034: boom
goroutine 35 [running]:
net/http.(*conn).serve.func1()
	/usr/local/go/src/net/http/server.go:1947 +0xbe
panic({0x6a3f40?, 0x771a30?})
	/usr/local/go/src/runtime/panic.go:785 +0x132
main.main.func1({0x7749d8, 0xc00019c0e0}, 0xc0001a6000?)
	/srv/app/main.go:9 +0x25`,
  ],
  dotnet: [
    `Unhandled exception. System.InvalidOperationException: The order failed
 ---> System.Collections.Generic.KeyNotFoundException: The given key 'cup' was not present in the dictionary.
   at System.Collections.Generic.Dictionary\`2.get_Item(TKey key)
   at Shop.Prices.Of(String item) in /srv/app/Prices.cs:line 12
   --- End of inner exception stack trace ---
   at Shop.Orders.Place(String item) in /srv/app/Orders.cs:line 31
   at Shop.Program.Main(String[] args) in /srv/app/Program.cs:line 8`,
    `System.Net.Http.HttpRequestException: Connection refused (core:443)
   at System.Net.Http.HttpConnectionPool.ConnectToTcpHostAsync(String host, Int32 port)
--- End of stack trace from previous location ---
   at System.Net.Http.HttpConnectionPool.SendAsync(HttpRequestMessage request)`,
  ],
};

const limits = { maxLines: 500, timeoutMs: 1_000 };
const configOf = (way: Partial<MultilineConfig>) => ({ ...limits, ...way }) as MultilineConfig;

describe("presets", () => {
  it.each(["java", "python", "go", "dotnet"] as const)(
    "%s: each trace is one record, and each line around it another",
    async (preset) => {
      const tail = await createMemoryTail({ multiline: configOf({ preset }) });
      const records = traces[preset].flatMap((trace) => [
        "2026-11-22 start",
        trace,
        "2026-11-22 end",
      ]);
      for (const piece of `${records.join("\n")}\n`.match(/[\s\S]{1,50}/g) ?? [])
        await tail.write(piece);
      await tail.finish();
      tail.expectTexts(...records);
    },
  );

  it("python and go store a line that opens no trace at once", async () => {
    for (const preset of ["python", "go"] as const) {
      const tail = await createMemoryTail({ multiline: configOf({ preset }) });
      await tail.write("one\ntwo\n");
      tail.expectTexts("one", "two");
    }
  });

  it("keep traces that follow each other apart", async () => {
    for (const preset of ["java", "python", "go", "dotnet"] as const) {
      const tail = await createMemoryTail({ multiline: configOf({ preset }) });
      const twice = traces[preset].flatMap((trace) => [trace, trace]);
      await tail.write(`${twice.join("\n")}\n`);
      await tail.finish();
      tail.expectTexts(...twice);
    }
  });
});

describe("patterns", () => {
  it("store a record when its last line has come, or the first of the next one", async () => {
    const ended = await createMemoryTail({ multiline: configOf({ endPattern: ";$" }) });
    await ended.write("select\n  1;\nselect\n");
    expect(ended.texts()).toEqual(["select\n  1;"]);
    const started = await createMemoryTail({ multiline: configOf({ startPattern: "^\\[" }) });
    await started.write("rest\n[1]\na\n\n[2]\n");
    expect(started.texts()).toEqual(["rest", "[1]\na\n"]);
  });
});
