import { createMemo, Show } from "solid-js";
import { CertificatePage, type CertificateView } from "../../../proto/operator/certificate.ts";
import { createReport } from "../api/create-report.ts";
import { CopyButton } from "../design/copy-button.tsx";
import { Loaded } from "../design/loaded.tsx";
import { type RecordColumn, RecordTable } from "../design/record-table.tsx";
import { formatUntil, shortened } from "../format/format.ts";
import { Time, TimeCell } from "../shell/time.tsx";

/** The certificates of a host, newest first: serial number, fingerprint, dates, status and successor. */
export const Certificates = (props: { id: string }) => {
  const report = createReport({
    schema: CertificatePage,
    path: createMemo(() => `/api/core/collector/identities/${props.id}/certificates?limit=100`),
    intervalMs: 60_000,
  });
  const page = report.current;
  const successorOf = ({ id }: CertificateView) =>
    page()?.items.find((other) => other.predecessor_id === id);
  const columns: readonly RecordColumn<CertificateView>[] = [
    {
      name: "Serial",
      cell: ({ serial_number: serial }) => <Copied text={serial} what="serial number" />,
    },
    {
      name: "SHA-256",
      cell: ({ fingerprint_sha256: print }) => <Copied text={print} what="fingerprint" />,
    },
    {
      name: "Status",
      cell: (certificate) => <Status certificate={certificate} asOf={report.asOf()} />,
    },
    { name: "Issued", cell: ({ issued_at: at }) => <Time at={at} asOf={report.asOf()} /> },
    {
      name: "First used",
      cell: ({ first_used_at: at }) => <TimeCell at={at} asOf={report.asOf()} none="never" />,
    },
    {
      name: "Expires",
      cell: ({ not_after: at }) => (
        <>
          <Time at={at} asOf={report.asOf()} />{" "}
          <span class="quiet">{formatUntil(at, report.asOf())}</span>
        </>
      ),
    },
    {
      name: "Successor",
      cell: (certificate) => (
        <Show when={successorOf(certificate)} fallback={<span class="quiet">none</span>}>
          {(successor) => (
            <code title={successor().serial_number}>{shortened(successor().serial_number)}</code>
          )}
        </Show>
      ),
    },
  ];
  return (
    <section class="page-section" id="certificates" aria-labelledby="certificates-title">
      <h3 id="certificates-title">Certificates</h3>
      <Loaded report={report} what="certificates" value={page()}>
        {(known) => (
          <>
            <RecordTable
              label="Certificates, newest first"
              columns={columns}
              rows={known().items}
            />
            <Show when={known().next_cursor !== null}>
              <p class="quiet">The newest 100 certificates. The API lists all of them.</p>
            </Show>
          </>
        )}
      </Loaded>
    </section>
  );
};

const Copied = (props: { text: string; what: string }) => (
  <span class="copied">
    <code title={props.text}>{shortened(props.text)}</code>
    <CopyButton text={props.text} what={props.what} />
  </span>
);

const Status = (props: { certificate: CertificateView; asOf: number }) => {
  const since = () => props.certificate.revoked_at ?? props.certificate.replaced_at;
  return (
    <>
      {props.certificate.status}
      <Show when={since()}>
        {(at) => (
          <span class="quiet">
            {" "}
            since <Time at={at()} asOf={props.asOf} />
          </span>
        )}
      </Show>
    </>
  );
};
