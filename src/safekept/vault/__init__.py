"""The vault: a restic repository, version 2. The floor that snapshots, retention and care stand on.

Import from the modules; nothing is imported here, so that a command pays only for what it uses.

    from safekept.vault.storage import LocalStorage                     the Storage contract: storage/base.py
    from safekept.vault.repo.keys import Secret, generate_secret
    from safekept.vault.repo.repository import Repository

Open, and write one snapshot:

    secret = generate_secret()                       # or Secret(text, generated=True) / Secret(passphrase)
    repository = Repository.init(LocalStorage(path), secret)            # VaultExists, VaultHalfMade
    repository = Repository.open(LocalStorage(path), secret, cache=directory)   # NoSuchVault, WrongKey, …

    with repository.lock() as lock:                  # shared; exclusive=True where it deletes. VaultLocked
        with repository.saver(lock) as saver:        # an index older than the lock is loaded again
            blob = saver.save(BlobKind.DATA, data)   # id (32 bytes); stored only where it is new
            blob = saver.save(BlobKind.DATA, data, known=blob)          # saves hashing where the id is known
            saver.has(BlobKind.DATA, blob)           # stored, or on its way: may be referred to
            tree = saver.save(BlobKind.TREE, encode_nodes(texts))       # nodes encoded by encode_node, sorted
            snapshot = saver.finish(Snapshot(time_ns, tree, ("/home/u/.hermes",), hostname, tags=(…)))
            saver.saved                              # blobs and bytes that were really added

Nothing is durable before `flush` (or `finish`, which flushes) returned: packs, then index, then
snapshot. An exception inside the `with` writes no snapshot but indexes what had arrived, so that the
next try builds on it; a kill loses at most the last minute of packs. `save` is safe from several
threads and waits when more than a few megabytes are on their way. `Node.content` is the ids in a row.
A saver that lost its lock raises LockLost before it writes.

Read:

    snapshots, damaged = list_snapshots(repository)  # snapshots.py: oldest first; damaged: {name: reason}
    shown(snapshots)                                 # not forgotten, newest first: number 1 is the first
    snapshot = pick(snapshots, "latest" | number | id prefix, numbered=shown(…))
    public_id(snapshot), kind_of(snapshot), …        # the id that people see; tags.py
    snapshot_source(repository, snapshot)[0]         # homes.py: a Source; content streams; remarks
    walk(repository, tree, remarks)                  # reader.py: (path, Node) of everything below a tree
    repository.load_tree(id).nodes ; repository.load_blob(kind, id)
    repository.loader.stream(content)                # bytes of a file from its ids in a row
    repository.index.has / lookup / by_pack()        # index.py: PackEntry(kind, id, offset, length, plain)

Care:

    check(repository, read_data=None | 0.0…1.0)      # check.py: Report(findings, …); findings are values
    unlock(storage, key, everything=False)           # locks.py
    repository.list_keys / add_key / remove_key
    repository.save_snapshot / delete_snapshot       # under an exclusive lock
    plan_forget(snapshots, policies, now_ns=…)       # retention.py: ForgetPlan(keep, forget), with reasons
    forget / unforget / pin / unpin(repository, snapshots, lock)        # forget.py: exclusive; marks.py
    forget_by_policy(repository, now_ns=…)           # forget.py: after a snapshot; None where it is in use
    plan_prune(repository, now_ns=…, grace=…) ; carry_out(repository, plan, lock)       # prune.py: exclusive

Errors are in errors.py, drawn as a tree. Version 1 is read, never written (VaultReadOnly).
"""
