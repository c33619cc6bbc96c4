import { createEffect, createSignal, For, Match, Switch } from "solid-js";
import { type ApiProblem, caughtProblem } from "../api/api-client.ts";
import { type DownloadedFile, downloadFile } from "../api/download.ts";
import { Button } from "../design/buttons.tsx";
import { Icon } from "../design/icon.tsx";
import { Banner } from "../design/report-parts.tsx";
import { formatBytes } from "../format/format.ts";
import { usePageContext } from "../session/page-context.tsx";

/** A file that the page downloads. */
export interface WantedFile {
  path: string;
  /** What the link says. */
  name: string;
}

interface Download extends WantedFile {
  bytes: () => number;
  /** Undefined while it runs. */
  end: () => { saved?: DownloadedFile; problem?: ApiProblem } | undefined;
  stop(): void;
}

const savedMs = 10_000;

/** The downloads that run, and how the others ended. Downloads each file that is `wanted`. */
export const Downloads = (props: { wanted: WantedFile }) => {
  const { api } = usePageContext();
  const [downloads, setDownloads] = createSignal<readonly Download[]>([]);
  const remove = (download: Download) =>
    setDownloads((all) => all.filter((other) => other !== download));

  const start = ({ path, name }: WantedFile) => {
    const stop = new AbortController();
    const [bytes, setBytes] = createSignal(0);
    const [end, setEnd] = createSignal<ReturnType<Download["end"]>>();
    const download: Download = { path, name, bytes, end, stop: () => stop.abort() };
    setDownloads((all) => [
      ...all.filter((other) => other.path !== path || !other.end()),
      download,
    ]);
    downloadFile(api, path, { signal: stop.signal, name, onProgress: setBytes }).then(
      (file) => {
        save(file);
        setEnd({ saved: file });
        setTimeout(() => remove(download), savedMs);
      },
      (error: unknown) => {
        if (stop.signal.aborted) return remove(download);
        setEnd({ problem: caughtProblem(error) });
      },
    );
  };
  createEffect(() => start(props.wanted));

  return (
    <For each={downloads()}>
      {(download) => (
        <Switch
          fallback={
            <div class="banner">
              <span role="status">Exporting {download.name}</span> {formatBytes(download.bytes())}
              <Button onClick={() => download.stop()}>Cancel</Button>
            </div>
          }
        >
          <Match when={download.end()?.saved}>
            {(file) => (
              <p class="banner" role="status">
                <Icon name="check" /> Exported {file().name}, {formatBytes(file().content.size)}.
              </p>
            )}
          </Match>
          <Match when={download.end()?.problem}>
            {(problem) => (
              <Banner role="alert">
                <span>
                  The export of {download.name} failed: {problem().message}. Nothing was saved.
                </span>
                <Button
                  onClick={() => {
                    remove(download);
                    start(download);
                  }}
                >
                  Try again
                </Button>
                <Button onClick={() => remove(download)}>Close</Button>
              </Banner>
            )}
          </Match>
        </Switch>
      )}
    </For>
  );
};

/** Gives a file to the browser, which asks or stores it as it does with every download. */
const save = ({ name, content }: DownloadedFile) => {
  const url = URL.createObjectURL(content);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  // The browser reads it after the click.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
};
