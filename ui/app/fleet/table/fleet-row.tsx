import { StateMark } from "../../icons/state-mark.tsx";
import type { AgeView, HashView, RowView } from "./row-view.ts";

const Age = (props: { age: AgeView }) => (
  <>
    <span class={props.age.never ? "never" : undefined} title={props.age.moment}>
      {props.age.text}
    </span>
    <span class="second">{props.age.moment.slice(0, 19)}</span>
  </>
);

const Hash = (props: { hash: HashView }) => (
  <span class="hash" data-group={props.hash.group}>
    {props.hash.text}
  </span>
);

/** Apart from the row, so that another view changes two hundred addresses and looks at nothing else. */
const RowLink = (props: { device: string; href: string }) => (
  <a class="row-link" href={props.href} noScroll title={props.device}>
    {props.device}
  </a>
);

/**
 * One collector. Its link opens the drawer; clicks elsewhere on the row are the table's. Columns are hidden by the table's style, and
 * nothing here ticks, so that two hundred rows cost no more than their texts.
 */
export const FleetRow = (props: { row: RowView; href: string; current: boolean }) => (
  <tr data-id={props.row.id} aria-current={props.current ? "true" : undefined}>
    <td class="column-state">
      <StateMark state={props.row.state} />
      <span class="second">{props.row.since}</span>
    </td>
    <th class="column-device" scope="row">
      <RowLink device={props.row.device} href={props.href} />
      <span class="second" title={props.row.identity}>
        {props.row.identity}
      </span>
    </th>
    <td class="column-heartbeat">
      <Age age={props.row.heartbeat} />
    </td>
    <td class="column-forwarding">
      <Age age={props.row.forwarding} />
    </td>
    <td class="column-config">
      <span data-tone={props.row.driftTone}>{props.row.drift}</span>
      <span class="visually-hidden">{props.row.hashesRead}</span>
      <span class="second hashes" aria-hidden="true">
        <Hash hash={props.row.hashes[0]} />
        <Hash hash={props.row.hashes[1]} />
        <Hash hash={props.row.hashes[2]} />
      </span>
    </td>
    <td class="column-queue">
      <span class="queue" data-tone={props.row.queueTone}>
        <svg class="meter" viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true">
          <rect class="meter-track" width="100" height="1" />
          <rect class="meter-fill" width={Math.max(0, props.row.queuePercent)} height="1" />
        </svg>
        {props.row.queue}
      </span>
      <span class="second" title={props.row.queueDetail}>
        {props.row.queueDetail}
      </span>
    </td>
    <td class="column-certificate">
      <span data-tone={props.row.certificateTone} title={props.row.certificateMoment}>
        {props.row.certificate}
      </span>
      <span class="second" data-tone={props.row.renewalTone} title={props.row.renewal}>
        {props.row.renewal}
      </span>
    </td>
    <td class="column-version">
      <span class="mono" data-tone={props.row.versionTone} title={props.row.version}>
        {props.row.version}
      </span>
      <span class="second" title={props.row.platform}>
        {props.row.platform}
      </span>
    </td>
  </tr>
);
