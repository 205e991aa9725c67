"""What each command decides, on rows that a dialect has loaded. Pure: no clock, no driver, no waiting.

A run (``runs``):

    pending ──claim──▶ running ──end──▶ succeeded | failed | cancelled
       ▲                  │ │
       │     error left,  │ └──an effect waits──▶ held ──resolve──▶ pending
       └── expired, released
    failed, cancelled ──retry──▶ pending

An effect (``effects``, ``evidence``):

    (none) ──start──▶ started ──completed──▶ completed
                        │ │
                        │ └──not applied, and no earlier request is open──▶ failed ──start──▶ started
                        └──final──▶ failed for good

``started`` without anybody executing it is *in doubt*: a resend, a look-up or a decision leads out of it.
Whatever comes too late to decide anything is kept as evidence.
"""
